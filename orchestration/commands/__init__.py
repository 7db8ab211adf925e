"""One module for each command of `sluice`: options in, text or JSON and an exit code out.

A module is imported when its command is called, so that `sluice --help` stays quick.
"""
