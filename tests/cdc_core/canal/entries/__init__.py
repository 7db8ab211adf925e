"""Claims as Canal's entries."""
