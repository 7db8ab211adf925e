"""One table of the source in, the lake's table reloaded from it out, in one commit at a known position.

staged     what a snapshot has staged, and where its next group of chunks begins
bounds     a file's statistics for Delta's log
files      rows as Parquet files beside the lake, before a commit names them
share      the chunks that one connection reads into such files
executors  shares written by Spark's tasks
groups     a table's chunks read in groups, each one commit of the staging table
span       the places between which chunks are read; the definition stays the same
registration  a snapshot's registration with the service, renewed
commit     the rows staged in the lake, then one commit that replaces rows and definition
target     the table that a copy is put in the place of: fenced, noted, found again
changes    a snapshot's change log: what runs keep for it meanwhile; the rows that were read with the log over them
overlay    the files that were staged with the log over them, without Spark
lost       the keys that left a table's parents while it is read
looked_up  the rows that named such a key, as they are at the source
exchange   a table's files exchanged for others, in one commit
adopt      the files that were staged become the table's own as they are
switch     they become the table, while the stream stands for a moment
table      `copy_table`: all of it in order
hold       what keeps rows behind the copy from being acked
snapshot   `TableSnapshots`: a table read in chunks beside the stream, then switched
beside     one table read in one view while others go on, then switched
repair     the whole remedy while others drain: beside the stream where it can be, else while a claim is held
"""
