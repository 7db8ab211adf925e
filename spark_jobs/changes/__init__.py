"""Reduces the changes of one table: images of a claim or of a part of a change log in, net changes out.

In order:

    columns        the columns of a change log besides the table's own
    version_range  which changes of a table: a condition for the rows of its log
    log_images     the images that one claim adds to a change log, as record batches
    table_changes  `Changes`: what one commit brings, from a claim or from a log, and its net
    net            the SQL: the last image of each key, or signed counts of equal rows; rows with changes over them
    whole_rows     the SQL that fills in what partial images leave out
    in_order       the images of a part of a log in Arrow: the first and the last of each key, without Spark
    versions       what images mean for a history, in Arrow: the versions of rows that they close and open
"""
