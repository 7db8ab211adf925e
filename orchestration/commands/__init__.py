"""Runs the commands of `sluice`: options in, text or JSON and an exit code out. `verb` runs the commands of the verbs.

A module is imported when its command is called, so that `sluice --help` stays quick.
"""
