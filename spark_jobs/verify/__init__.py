"""Source and lake in, their differences out.

beside     tables with a key, by checksums that both sides compute, while others write and drain
candidates  the keys that may differ, by the checksums: `row_text`, `row_hash`, `sums`
standing   what the lake must have of them at the place where it stands
audit      both in order
repair     the rows that differ brought right, while the lake stands
tables     several tables, each compared in its way
verify     tables at rest, row by row: neither side goes through the decoder or the engine that wrote the lake
compare    how the rows at rest differ
definition  how the definitions do
"""
