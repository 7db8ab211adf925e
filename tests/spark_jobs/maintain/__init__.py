"""Tables of the lake kept healthy."""
