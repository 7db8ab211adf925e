"""The stages that every block goes through: expand, settle, annotate, filter."""
