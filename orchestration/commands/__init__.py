"""What the commands of `sluice` do: options in, text or JSON and an exit code out. `verb` runs those of the verbs.

A module is imported when its command is called, so that `sluice --help` stays quick.
"""
