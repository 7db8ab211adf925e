"""Ring and sessions against a model, by random calls."""
