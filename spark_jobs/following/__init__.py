"""Merges the change log of a table into it: one Delta commit for each part, exactly once, at the table's own pace.

In order:

    pending     the rows of a log that its merged table lacks, without repeated ones: by statistics, without Spark
    files       the statistics of a log's files
    net         a part of a log as Spark reads it: its bounds, its definition, its range of keys
    agreed      the next part of a log without a key, noted before its statement is sent
    last_images the last image of each key, which Spark gets instead of the log
    ready       the first part that a table lacks, and the table prepared for it
    merge       one part of one log becomes one commit of the merged table
    together    the first parts of many logs become commits of small tables, by one job
    merged      the result of a merge
    others      the error for a table that another run writes
    parked      tables whose merge failed: why, how often, when the next try is due
    follow      merges the logs of one run, several at the same time
    catch_up    merges a whole log before a DDL statement or another way of writing the table
    base        the version that a table can be reloaded from, and the rows of its log after it
    remake      reloads a table from its log, in one commit
    views       the views of a run's tables, rebuilt if they must be
    now         the view of a table as of the end of its log
"""
