"""MySQL and MariaDB servers: a version in, a running server with a capturing account out."""
