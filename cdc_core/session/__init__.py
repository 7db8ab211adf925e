"""4 serve: ranges of the store in, claims out; acks and rollbacks move the clients' marks and cursors."""
