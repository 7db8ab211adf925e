"""The jobs of one destination: jobs that sensors start again and again, and jobs of the verbs, which a person starts
with a reason."""
