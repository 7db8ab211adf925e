"""Tables of the lake are kept healthy: small files become large ones, and files that no version needs go.

In: a table of the lake. Out: commits that change no row, and what they did. Needs Spark, and a claim that is held while
files are rewritten.
"""
