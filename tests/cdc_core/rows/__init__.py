"""Row images to Arrow: every type of every server, net changes, bounds."""
