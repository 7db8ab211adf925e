"""Reads consistent snapshots of a MySQL server at a known place of its binlog, for `verify` and `load`.

source     how to reach the server
binlog     the binlog's end, and whether rows or DDL statements are between two places
at_rest    a snapshot of all tables, of a server that comes to rest
place      the place of a snapshot in the binlog, also while others write
key        a table's key as literals that compare as its values
chunk      a range of keys as a condition
chunks     a table cut into chunks of about one size
reading    a table's rows by SELECT, as Arrow, of the same values as the decoder makes
limits     how fast, over how many connections, in how much memory
failures   errors of the server or the network while rows are read
replica    a server that is read instead of the source, once it has caught up
foreign_keys  foreign keys by which the server changes rows of other tables without the binlog
oracle     a table's rows by SELECT, as Arrow, without the decoder
sql        identifiers in MySQL
"""
