"""Lands changes: a claim's rows go to one typed change log a table, before anything is merged.

In: a claim, and the service's rows in mode `changes`. Out: one commit a table in `{lake}/{database}/{table}__log`.
Needs no Spark.
"""
