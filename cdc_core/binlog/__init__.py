"""The binlog's format alone: bytes in, values out. No I/O."""
