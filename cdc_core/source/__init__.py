"""1 read: a MySQL server in, blocks of its binlog out."""
