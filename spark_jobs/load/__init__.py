"""A base of rows in, a table of the lake with these rows out, in one commit at a known place.

A base is what the source has, read in chunks beside the stream or in one view, and the changes that came since are laid
over it (`Loader`, `switch`). A table that is only brought right stays at its place: one remade from one of its versions
and its log, and one whose rows are repaired (`Rewrite`).

hold          what keeps rows behind the copy from being acked
registration  a snapshot's registration with the service, renewed
files         rows as Parquet files beside the lake, before a commit names them
staging       what is staged, and where its next group of chunks begins
groups        a table's chunks read in groups, each one commit of the staging table
executors     shares of a group written by Spark's tasks
view          a table read in one view; `copy_table`: the table made of it while a claim is held
reader        all rows of a table staged, in chunks or in one view
change_log    the changes that runs keep for a snapshot meanwhile
lost_keys     the keys that left a table's parents meanwhile; the rows that named them, as they are at the source
overlay       the files that were staged with the log over them, without Spark
replacement   what is put in the place of a table: fenced, noted, found again; Spark's commit of it
adopt         the staged files become the table's own, without Spark
switch        staged rows become the table: the changes over them, by either commit
cutover       a snapshot's rows are switched while the stream stands for a moment
loader        `Loader`: all of it in order, for snapshots and copies, of one table or of many
rewrite       `Rewrite`: one commit of other rows at the place where a table is
catalogue     about how large tables are, and the definitions of the small ones
small_reader  small tables read and staged, many over one connection
small         small tables, many at a time: what is a wait they share
several       several tables, the small ones first, and how far all are
result        for whom tables are loaded, and what became of them
"""
