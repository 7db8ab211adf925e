"""2 prepare: blocks as the source sends them in, annotated blocks of committed rows out."""
