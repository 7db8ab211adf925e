"""The source's binlog read again."""
