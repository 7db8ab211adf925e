"""The demo's workload and its figures."""
