"""The net changes of one table in, one commit of Delta that carries a version out.

preparation    the table is made, or gets its new columns
order          what a small table's commit is made of, and which tables are small
order_changes  its changes in Arrow, from a claim or from a change log
fused          one job of Spark writes many orders; `small_table` is one of them, by delta-rs in a task
view           else the net changes are a temporary view of a Spark session; `net_file` is a file of many of them
choice         which statement applies them; `statements` and the room `changes` write its SQL
transaction    the statement as one commit of Delta
"""
