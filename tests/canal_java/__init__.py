"""Together with a Java Canal server."""
