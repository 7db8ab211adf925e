"""Alerts: what is news, its words, and its way to real receivers."""
