"""What outlives the service: each client's cursor, epoch and stopped tables, in memory, a file or ZooKeeper."""
