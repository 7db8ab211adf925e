"""The packets of a SELECT, to Arrow."""
