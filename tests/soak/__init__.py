"""Random scripts of DDL and DML against real servers, and a week in an hour: `python -m tests.soak --help`."""
