"""The independent judge of the lake: tables at rest, read whole by SELECT, and compared row by row by SQL."""
