"""Jobs that a person starts."""
