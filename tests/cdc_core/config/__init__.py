"""Canal's properties in, models out; unknown and wrong keys."""
