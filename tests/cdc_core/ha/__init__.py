"""Election and seats, with a real ZooKeeper."""
