"""Canal's TCP protocol without sockets: in come bytes, out go bytes and commands.

A connection begins with the server's handshake; the client authenticates; then it sends one request after the other.
Source: CanalProtocol.proto and EntryProtocol.proto of Canal 1.1.8, and what its server and its Java client do.
"""
