"""The files of many tables of the lake become one table.

The tables are a union's shards, which other rooms write. What is here brings the union's log to name their files: it
depends on nothing but what the lake has, so whoever does it, and however often, the union has its shards' rows.
"""
