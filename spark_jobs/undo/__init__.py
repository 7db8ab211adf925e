"""The lake set back on purpose: single rows by what batches did to them, or all tables and the cursor.

In order:

    decision    which rows are put, and which were changed since: from rows before, after and now
    plan        a table's decision, or why it cannot be corrected, before anything is written
    parts       where the rows of a part of the past come from
    commit      the rows put in one commit, noted before and after it
    restore     all tables and the cursor set to one place
"""
