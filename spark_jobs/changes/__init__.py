"""Reduces the changes of one table: images of a claim or of a part of a change log in, net changes out.

In order:

    columns     the columns of a change log besides the table's own
    log_images  the images that one claim adds to a change log, as record batches
    net         the SQL: the last image of each key, or signed counts of equal rows; rows with changes over them
    in_order    the images of a part of a log in Arrow: the first and the last of each key, without Spark
    whole_rows  the SQL that fills in what partial images leave out
"""
