"""Turns the packets of one SELECT into Arrow record batches, with the decoder's values for the binlog.

question     the expression that is selected of each column
statement    a prepared statement on a connection: its packets
packets      packets from the socket; rows of cells
cutter       the kernel that finds the cells
answers      the server's description of the columns, checked against the table's definition
columns      the cells of each column as Arrow: the one mapping
kernels      texts, decimals and moments of the binary protocol
"""
