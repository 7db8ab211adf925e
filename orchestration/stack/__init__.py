"""The servers around Sluice as child processes: a directory and a port in, a running server out.

The demo, `sluice up` and the tests start them. Where MySQL, ZooKeeper and Spark run already, nothing here is needed.
"""
