"""Registers the lake's tables in a catalog of Spark's session: compares the names that should be there with those that
are.

In: the lake's folders and logs, the names that the configuration gives, and what the catalog has. Out: external tables
of the catalog at the paths of the lake's tables. No batch waits for it.
"""
