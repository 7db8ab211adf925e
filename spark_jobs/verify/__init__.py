"""Compares source and lake, and repairs differences.

comparer   tables, compared while others write and drain
audit      one table: the sums of both sides, then the rows of buckets that differ
candidates  the keys that may differ, by `row_text`, `row_hash` and `sums`
standing   the rows that the lake must have at its place; or both sides as of one moment
counts     the differences between two fixed sides, row by row
repair     replaces rows that differ, while the lake stands still
history    a history, compared with its table
definition  the differences between the definitions
"""
