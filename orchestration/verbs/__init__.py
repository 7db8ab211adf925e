"""What a person can have done, as a command or as a job of Dagster: one model and one `run` a verb.

`orders` has the models; `access` is what a verb works with, and `report` what it reports to. Neither Dagster nor the
command line is imported here.
"""
