"""The servers that the demo and `sluice up` start."""
