"""Loads a table of the lake from a base of rows, in one commit at a known place.

A base is the source's rows, read in chunks while the stream goes on or in one view; or one of the table's own versions.
The changes since then are laid over it: those of a snapshot's log (`Loader`, `switch`), or of the table's
(`Remaker`). A table that is only corrected stays at its place: one that is remade, or whose rows are repaired
(`Rewrite`).

hold          keeps rows after the copy from being acked
registration  a snapshot's registration with the service, renewed
load_snapshot the snapshot of one table that a load opens, goes on with or ends
files         rows as Parquet files in the staging folder, before a commit names them
staging       the staged rows, and the beginning of the next group of chunks
groups        a table's chunks read in groups, each one commit of the staging table
executors     shares of a group written by Spark's tasks
view          a table read in one view; `copy_table`: the table made of it while a claim is held
reader        all rows of a table staged, in chunks or in one view
change_log    the changes that runs keep for a snapshot meanwhile
lost_keys     the keys that left a table's parents meanwhile; the rows that named them, as they are at the source
overlay       the staged files with the log over them, without Spark
replacement   the replacement of a table: fenced, noted, found again; Spark's commit of it
adopt         the staged files become the table's own, without Spark
switch        staged rows become the table: the changes over them, by either commit
cutover       a snapshot's rows are switched while the stream stands for a moment
loader        `Loader`: all of it in order, for snapshots and copies, of one table or of many
rewrite       `Rewrite`: one commit of other rows at the table's place
base          the version of a table that a remake begins from, and the rows of its log after it
remake        `Remaker`: reloads a table from such a base
catalogue     the estimated size of tables, and the definitions of the small ones
small_reader  small tables read and staged, many over one connection
small         small tables, many at a time, which wait together
several       several tables, the small ones first, and their progress
result        the client of a load, and its outcome
"""
