"""Tables of the lake reloaded from the source."""
