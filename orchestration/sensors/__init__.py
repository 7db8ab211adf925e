"""What starts runs, gives back the claims of runs that ended badly, and tells people of trouble.

`backlog` is the sensor that looks at the service, `decision` what it decides, `runs` what Dagster knows of the runs;
`ended` reacts to failed and cancelled runs. `alerting` tells what `conditions` finds wrong.
"""
