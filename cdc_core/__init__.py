"""The capture service: MySQL's binlog in, claims of column batches out. It knows neither Spark nor Dagster.

The way of the data, in order:

    source/       1 read: a server's binlog comes in over a socket as blocks of bytes
    stream/       2 prepare: transactions are completed, events annotated, rows that were rolled back dropped
    store/        3 keep: one log in memory and on disk, with marks for each client
    session/      4 serve: a range of the log becomes a claim; acks and rollbacks move the client's marks
    rows/         5 decode: a claim's bytes become Arrow record batches of one table, when somebody reads them
    doors/        claims and acks over HTTP, rows over Arrow Flight
    client/       the other end of the doors, for `spark_jobs` and `orchestration`

Around it:

    destination/  one capture: runs steps 1 to 4, reports status and metrics
    server/       all destinations of one configuration directory; `ha/` decides which server runs which
    meta/         cursors, epochs and stopped tables, in ZooKeeper, a file or memory
    contract/     the values that service and clients exchange
    canal/        Canal's entries, protocol, queues and mirror; the way to the lake needs none of it

Below it: `config`, `schema` (definitions and DDL), `rules` (what a lake sees of a table), `binlog` (the format),
`charsets`, `gtid`, `compiled` (kernels). For people who ask: `monitor`, `preflight` and `reread`.
"""
