"""Starts runs, gives back the claims of runs that ended badly, and sends alerts.

`backlog` is the sensor that looks at the service, `decision` what it decides, `runs` what Dagster knows of the runs;
`ended` reacts to failed and cancelled runs. `alerting` sends messages about what `conditions` finds wrong.
"""
