"""Sluice in Dagster, the command `sluice`, and the servers that it starts.

definitions    what Dagster loads; `loading` reads the folder of destinations
destination    the component: one `defs.yaml` becomes assets, jobs, sensors and resources
assets/        the tables, and the run that drains a destination: claim, apply, check, ack
draining       the same run for other schedulers
sensors/       what starts runs, and gives back what dead ones held
verbs/         what a person can have done, as a command or as a job: one model and one run a verb
jobs/          the drain by hand or by the clock, and the jobs of the verbs
commands/, demo/, stack/    the command line and the servers that it starts
"""
