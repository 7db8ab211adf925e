"""Table definitions as of a position, completed from the catalogue."""
