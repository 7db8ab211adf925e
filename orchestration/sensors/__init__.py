"""What starts runs, and what gives back the claims of runs that ended badly.

`backlog` is the sensor that looks at the service, `decision` what it decides, `runs` what Dagster knows of the runs;
`ended` reacts to failed and cancelled runs.
"""
