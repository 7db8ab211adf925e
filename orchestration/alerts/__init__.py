"""Alerts: which problems of a destination people hear about, when, in which words, and over which channel.

`rules` is what defs.yaml says, `kinds` has the kinds of problems and their words, `incidents` decides what is news
(pure), `messages` writes it, and `receivers` sends it. `orchestration.sensors` finds out what is wrong at the moment.
"""
