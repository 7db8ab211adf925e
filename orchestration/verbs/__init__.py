"""What a person can have done, as a command or as a job of Dagster: one model and one `run` for each verb.

`orders` has the models, and one module here for each verb has its `run`. `access` is what a verb works with, and
`report` what it reports to. This room imports neither Dagster nor the command line; `orchestration.cli_verbs` makes the
commands and `orchestration.jobs.by_hand` the jobs.
"""
