"""Writes the net changes of one table, as one commit of Delta that carries a version.

preparation    creates the table, or adds its new columns
order          the order for a small table's commit, and which tables are small
order_changes  the changes of an order in Arrow, from a claim or from a change log
fused          one job of Spark writes many orders; `small_table` writes one of them, by delta-rs in a task
view           the net changes of other tables, as a temporary view of a Spark session; `net_file` is a file of many
choice         chooses the statement that applies them; `statements` and the room `changes` write its SQL
transaction    executes the statement as one commit of Delta
"""
