"""Lands changes: a claim's rows go to one typed change log a table, before anything is merged.

In: a claim, and the service's rows in mode `changes`. Out: one commit a table in `{lake}/{database}/{table}__log`.
Needs no Spark. In order:

    modes          how the changes of each table come into the lake
    log            a table's change log, opened at one version
    definition     the definition of the table that a log keeps
    evolution      whether a log can take the columns of a claim
    append         a claim's images become one commit of a log
    whole          from which place a log has all changes
    merged         changes that were lost with a log
    unfollowed     statements that no merged table followed
    notes          what one run knows of the tables that it lands
    files          the statistics of a log's files
    client_tables  the merged tables of one client, and their logs
    parked         tables whose merge failed, or that wait for another job: why, and until when
"""
