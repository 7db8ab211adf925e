"""The doors: clients' calls come in over the network and go to the server object; values go out as JSON or Arrow.

Each protocol has a room of its own. They share the token (`access`), addresses, error codes and the counts of traffic.
"""
