"""All destinations of a server: configuration scan, leadership, hand-over."""
