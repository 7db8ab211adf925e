"""Who runs what: sessions and nodes of ZooKeeper come in, terms go out. For servers and for consumers."""
