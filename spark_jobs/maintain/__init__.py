"""Keeps tables of the lake healthy: joins small files, and deletes files that no version needs.

In: a table of the lake. Out: commits that change no row, and what they did. Needs Spark, and a claim that is held while
files are rewritten.
"""
