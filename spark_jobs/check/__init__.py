"""Checks before the first run that a cluster has what runs need, and returns findings with remedies.

on_executor    finds the facts of an executor; it travels by value, so that an executor needs no package of Sluice's
findings       judges the facts of driver and executors
cluster        asks Spark, the executors and the service
"""
