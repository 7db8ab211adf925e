"""Writes the changes of one table, as one commit of Delta that carries a version. In order:

preparation     creates the table, or adds its new columns
ready           `ReadyTable`: a table that is ready for one commit, whatever engine makes it
by_statement    `StatementWriter`: one statement of Spark makes the commit
seen            how Spark sees the changes: a view of their net, or a change log
view            a view of rows that are sent along, pulled, or in a file; `net_file`: such a file, in the lake
sorted_images   what Arrow makes of a log for Spark: the last image of each key, or versions for a history
choice          chooses the statement; `statements` and the room `changes` write its SQL
transaction     executes it, and explains its errors
order           the order for a small table's commit, and which tables are small
order_changes   the changes of an order in Arrow, from a claim or from a change log
fused           one job of Spark writes many orders; `small_table` writes one of them, by delta-rs in a task
rewrite         the rows of a very small table, changed by key, as one new file
"""
