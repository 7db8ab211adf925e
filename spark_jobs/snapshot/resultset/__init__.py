"""The packets of one SELECT in, Arrow record batches out, the same values as the decoder makes of the binlog.

question     what is asked of each column
statement    a prepared statement on a connection: its packets
packets      packets from the socket; rows of cells
cutter       the kernel that finds the cells
answers      what the server says it sends, checked against the table's definition
columns      the cells of each column as Arrow: the one mapping
kernels      texts, decimals and moments of the binary protocol
"""
