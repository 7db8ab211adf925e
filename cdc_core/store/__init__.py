"""3 keep: annotated blocks in, ranges of them out; every client has marks in one shared log."""
