"""Real processes killed at chosen points of the way of a batch; afterwards source and lake are the same."""
