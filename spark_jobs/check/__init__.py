"""What executors need, looked for before the first run: a cluster in, findings with remedies out.

on_executor    what a task finds where it runs; it travels by value, so that an executor needs none of our packages
findings       what is right and what is wrong, told by facts of both sides
cluster        asks Spark, the executors and the service
"""
