"""What a part of the past changed: batches in; the versions of tables that they made, and rows before and after, out.

In order:

    noted      the batches that somebody asks about, as the ledger has them
    asked      how somebody asks for them
    versions   which versions of a table have their changes, by the notes of its commits
    vectors    the deleted rows of a file
    files      the rows in which two versions of a table differ, by the files that only one of them has
    logged     the images of a part of a change log
    images     `past_images`: the images of a table, from the log or from its versions, and what they cannot show
    changed    the same as one change after the other, for people
    explain    a span explained, its transactions too, from the lake and from the source's binlog
"""
