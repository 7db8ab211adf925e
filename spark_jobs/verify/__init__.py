"""Source and lake in, their differences out.

beside     tables, compared while others write and drain
audit      one table: the sums of both sides, then the rows of buckets that differ
candidates  the keys that may differ, by `row_text`, `row_hash` and `sums`
standing   what the lake must have of them at the place where it stands; or both sides as of one moment
counts     what differs between two sides that stand, row by row
repair     rows that differ are replaced, while the lake stands
history    a history, compared with its table
definition  how the definitions differ
"""
