"""The jobs of one destination: those that sensors start again and again, and those of the verbs, which a person starts
with a reason."""
