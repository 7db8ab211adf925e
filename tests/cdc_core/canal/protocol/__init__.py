"""Canal's TCP protocol without sockets."""
