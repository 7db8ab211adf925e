"""Where reading starts: a cursor, the configuration and a server in, a position out."""
