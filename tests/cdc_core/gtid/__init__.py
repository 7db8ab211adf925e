"""GTIDs and GTID sets of MySQL and MariaDB."""
