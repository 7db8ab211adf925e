"""The jobs of one destination: the drain, and those of the verbs, which a person starts with a reason."""
