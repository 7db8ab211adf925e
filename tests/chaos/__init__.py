"""Random faults under a live workload, until source and lake are compared."""
