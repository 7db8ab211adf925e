"""Changes that land in logs."""
