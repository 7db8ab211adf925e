"""Canal's admin port: canal-admin asks here which destinations run, and starts and stops them.

In come requests of Canal's admin protocol, out go the answers of the server around all destinations.
"""

from cdc_core.canal.admin.door import AdminDoor

__all__ = ["AdminDoor"]
