"""The jobs of one destination: the drain, and those that a person starts with a reason."""
