"""The bytes of Canal's entries, of this service's or of another Canal's: out come the places of their rows and cells.

What writes rows in another form reads these places: flat messages, and the statements of a mirror.
"""
