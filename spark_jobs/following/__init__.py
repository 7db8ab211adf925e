"""A table's change log in; one Delta commit of the merged table out, exactly once, at the table's own pace.

The way of a log, in order:

    pending     which rows of a log its merged table lacks, what comes again left out: by statistics, without Spark
    files       the statistics of a log's files
    net         what a part of a log is to Spark: its bounds, its definition, its range of keys
    agreed      the bounds of such a part, noted before its statement is sent
    last_images the last image of each key, which Spark gets instead of the log
    ready       the first part that a table lacks, and the table as it takes it
    merge       one part of one log becomes one commit of the merged table
    together    the first parts of many logs become commits of small tables, by one job
    merged      what that brought
    parked      tables whose merge failed: why, how often, when the next try is due
    follow      the logs of one run, side by side, each in its own time
    catch_up    a log is merged whole, before a DDL statement or another way of writing the table
    base        what a table can be reloaded from, and what its log has behind that
    remake      a table is reloaded from its log, in one commit
    views       the views of a run's tables, made anew where they must be
    now         the view of a table as of the end of its log
"""
