"""A claim's DDL statements in, the lake's tables changed the same way: exactly once, before the claim's rows.

follow      the statements, several at the same time, in order for each table; errors concern one table alone
steps       the steps of one statement, and the version of each step
again       statements that come again in a later epoch
standing    one table as its log shows it: how far it is, whether this run may write it
creation    CREATE, DROP and TRUNCATE
renaming    RENAME, several at once and swaps
waiting     the rows of a quarantine go along with it
mending     statements that resume a stopped table
altering    ALTER; `lake.alteration` decides what it means for the table
consent     whether a table's policy lets it follow
copies      small tables that need a copy get it in the same run
"""
