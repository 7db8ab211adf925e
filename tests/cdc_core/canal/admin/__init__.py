"""Canal's admin port."""
