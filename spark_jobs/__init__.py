"""Everything that runs on Spark: claims in, Delta tables out. Does not know Dagster.

The way of a claim, in order:

    apply/        the claim's DDL statements, then its tables, each in one commit; or its change logs:
    landing/      the changes are appended to a change log for each table, and
    following/    later merged from there, at the table's own pace
    changes/      the images of a claim or of a log, reduced to net changes
    expectations/ what must be true of the rows before they are in their table
    write/        the commit, by a statement of Spark or by delta-rs in a task
    union/        tables that are made of many tables' files

Whole tables and the past:

    snapshot/     consistent reads of the source, which
    load/         makes into tables: copies, snapshots, remakes
    verify/       source against lake, and repairs
    past/, undo/, as_of/    what batches changed, taken back, and all tables as of one transaction

Below it and around it: `lake` (paths, logs, states, the ledger and the fence), `catalog` (names for tables), `maintain`
(compaction and retention), `check` (before the first run), `warming`, `session` (Spark Connect) and `source` (the data
source by which Spark's tasks pull a claim's rows).
"""
