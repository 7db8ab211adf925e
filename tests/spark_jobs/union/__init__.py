"""Unions: their columns, and the publishing of their shards' files."""
