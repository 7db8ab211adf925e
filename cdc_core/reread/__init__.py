"""The source's binlog read again: an account and two places in, the transactions between them out.

For a person who asks what happened. It reads over connections of its own, by a server id of its own, so that the dump
of the service goes on. Nothing is kept of what was read.
"""
