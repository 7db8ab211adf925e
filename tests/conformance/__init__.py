"""One suite for every backend of a contract."""
