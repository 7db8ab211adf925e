"""As of a place: for each table of a destination the Delta version that has all rows up to there, and none after it.

In: the ledger's batches, and the commits of each table with their notes. Out: a version for each table, so that all are
of the same transaction; or why there is none, and the nearest place that has one. No row is read.
"""
