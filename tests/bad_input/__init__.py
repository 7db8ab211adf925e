"""What users and their world do wrong, and what they read about it: real servers, the real service, real Dagster."""
