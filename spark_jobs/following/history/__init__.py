"""A table's change log in; every version of each of its rows out, in a Delta table beside it.

In order:

    columns     what a history has besides the table's columns, and how its commits are named
    note        what a history's properties say: where it began, and what it was compared with
    stamp       what is true of a table besides its log
    standing    what a history lacks, and whether it must be compared with its table
    statements  the SQL: versions from a part of a log, and from a comparison
    historian   one part of one log, or one comparison, becomes one commit
    works       the merges and the histories of one run
"""
