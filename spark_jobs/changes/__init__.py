"""The changes of one table: images of a claim or of a part of a change log in, what remains of them out.

In order:

    columns     what a change log has besides the table's own columns
    log_images  what one claim adds to a change log, as record batches
    net         the SQL: the last image of each key, or signed counts of equal rows; rows with changes over them
    in_order    the images of a part of a log in Arrow: the first and the last of each key, without Spark
    whole_rows  the SQL that fills in what partial images leave out
"""
