"""Merges the change log of a table into it: one Delta commit for each part, exactly once, at the table's own pace.

In order:

    pending     the rows of a log that its merged table lacks, without repeated ones: by statistics, without Spark
    agreed      the next part of a log without a key, noted before its statement is sent
    ready       the first part that a table lacks, and the table prepared for it
    merge       one part of one log becomes one commit of the merged table
    together    the first parts of many logs become commits of small tables, by one job
    merged      the result of a merge
    others      the error for a table that another run writes
    follow      merges the logs of one run, several at the same time
    catch_up    merges a whole log before a DDL statement or another way of writing the table
    views       the views of a run's tables, rebuilt if they must be
    now         the view of a table as of the end of its log
"""
