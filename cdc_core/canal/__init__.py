"""What Canal's clients see: its entries, its TCP protocol and admin door, its client, its queues and its mirror.

The main way, from the binlog to the lake, needs none of it.
"""
