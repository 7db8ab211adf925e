"""Canal's client in Python."""
