"""Segments of the log on disk: segments in, mapped segments out, also after a restart."""
