"""The Flight door: a claim's rows go out as Arrow record batches, planned once a table and streamed split by split."""

from cdc_core.doors.flight.door import FlightDoor

__all__ = ["FlightDoor"]
