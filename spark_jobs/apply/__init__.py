"""Applies a claim to the lake: one Delta commit for each of its tables, exactly once.

The way of a claim, in order:

    spark_lake     a run's interface to the lake: check the cursor, apply a claim, note it in the ledger
    batch          the claim's DDL statements (`ddl`), then all its tables, several at the same time
    kept           changes of tables with an open snapshot, kept for it before the ack
    table          one table's share: decide, plan, `write`, read back
    together       the small tables, committed together by one job
    expected       what is expected of tables, evaluated before any of these is written
    decision       which rows the table has already; `epochs` says which come again after a rewind
    commits        the effects of the range's commits, from the table's log
    checks         whether the numbers add up: the gate before the ack
"""
