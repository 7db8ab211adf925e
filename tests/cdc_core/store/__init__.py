"""The ring: put, get and ack marks, and what it does when it is full."""
