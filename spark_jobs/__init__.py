"""Everything that runs on Spark: claims in, Delta tables out. Does not know Dagster.

source     the data source `sluice`: Spark's tasks pull a claim's rows
session    sessions on a Spark Connect server
lake/      the Delta tables, what their logs say, and the ledger of batches
apply/     one claim's way into the lake
verify/    source against lake
"""
