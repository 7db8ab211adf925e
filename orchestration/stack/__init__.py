"""The servers around Sluice, started and stopped as child processes: for the demo, for `sluice up` and for the tests.

Nothing here is needed where MySQL, ZooKeeper and Spark are run by somebody else.
"""
