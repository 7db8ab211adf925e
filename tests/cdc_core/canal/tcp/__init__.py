"""The TCP port for Canal's clients."""
