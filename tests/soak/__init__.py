"""Random scripts of DDL and DML against real servers: `python -m tests.soak --help`."""
