"""Bytes of any character set of the servers in, UTF-8 out."""
