"""What the service and its clients share: claims, statuses, stops, open snapshots, how far rows were acked, addresses.

Frozen values with a JSON form. The service makes them, the client reads them; nothing here talks to anybody.
"""
