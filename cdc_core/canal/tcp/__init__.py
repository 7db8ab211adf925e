"""Canal's TCP protocol: in come the requests of Canal's clients, out go batches of entries.

Called by clients written for Canal, in Java, Python or Go. One event loop serves all connections; what may wait for
the session, and the encoding, is done by a few threads.
"""

from cdc_core.canal.tcp.door import TcpDoor

__all__ = ["TcpDoor"]
