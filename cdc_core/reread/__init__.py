"""The source's binlog read again: an account and two places in, the transactions between them out.

For a person who asks what happened. It reads over its own connections, by its own server id, so that the dump
of the service goes on. Nothing is kept of what was read.
"""
