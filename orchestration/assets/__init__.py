"""The assets of one destination, and the run that materializes its Delta tables: claim, apply, check, ack.

`lineage` declares the assets, `drain_asset` the multi-asset that a run executes with `drain`; `checks` and `metadata`
are what Dagster shows of each batch.
"""
