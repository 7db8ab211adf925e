"""The clients' side of the doors: calls go out to the service; claims, statuses and record batches come back."""
