"""A MySQL server in, a consistent snapshot of it at a known place of its binlog out. `verify` and `copy` read it.

source     how to reach the server
binlog     what the binlog says: its end, whether rows or DDL statements stand between two places
at_rest    a snapshot of all tables, of a server that comes to rest
place      where a snapshot stands, also while others write
key        a table's key as literals that compare as its values
chunk      a range of keys as a condition
chunks     a table cut into chunks of about one size
reading    a table's rows by SELECT, as Arrow, of the same values as the decoder makes
limits     how fast, over how many connections, in how much memory
failures   errors of the server or the network while rows are read
replica    a server that is read instead of the source, once it has what the source had
foreign_keys  which rows of other tables the server changes behind the binlog's back
oracle     a table's rows by SELECT, as Arrow, without the decoder
sql        identifiers in MySQL
"""
