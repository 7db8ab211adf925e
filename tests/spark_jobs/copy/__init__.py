"""Tables of the lake made anew from the source."""
