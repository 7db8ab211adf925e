"""Cursors and epochs in files and in a real ZooKeeper."""
