"""A destination mirrored into another MySQL, MariaDB or PostgreSQL: Canal's client adapter for relational databases.

In come events of Canal's protocol, out go statements: rows of a batch, and the place in the binlog up to which they
are, in one transaction of the target.
"""
