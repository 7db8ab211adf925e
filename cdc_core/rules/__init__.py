"""Rules of a lake: a table's definition, a statement or a claim in, the same as the lake sees it out.

A rule leaves columns or rows out, renames columns or masks their values. It makes a view of the source: `table_rule`
gives the definition of the source's table with what a rule makes of each column (`schema.column_rule`) and with the
condition of its rows (`conditions`), and whoever makes Arrow from the values of the source does it by that definition
alone.
"""
