"""Alerts: what of a destination's trouble a person is told, when, in which words, and by which way.

`rules` is what defs.yaml says, `kinds` the kinds of trouble and their words, `incidents` decides what is news, purely,
`messages` writes it, and `receivers` sends it. What is wrong at the moment is looked up by `orchestration.sensors`.
"""
