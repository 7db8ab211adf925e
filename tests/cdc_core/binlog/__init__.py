"""The binlog format: real journals, events written by hand, damaged and random bytes."""
