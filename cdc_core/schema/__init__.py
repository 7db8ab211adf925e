"""Definitions of tables: from the catalogue and from events in, `TableSchema` out."""
