"""One connection for the destinations of one server: captures that have caught up come in, blocks for each go out."""
