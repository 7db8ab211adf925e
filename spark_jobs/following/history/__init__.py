"""Writes every version of each row of a table, by its change log, into a Delta table next to it: its history.

In order:

    columns     the columns of a history besides the table's, and the names of histories in a run
    note        the properties of a history: where it began, and what it was compared with
    stamp       the facts of a table that its log does not have
    standing    what a history lacks, and whether it must be compared with its table
    own         creates, fences and widens a history
    statements  the SQL: versions from a part of a log, and from a comparison
    historian   one part of one log, or one comparison, becomes one commit
    works       the merges and the histories of one run
"""
