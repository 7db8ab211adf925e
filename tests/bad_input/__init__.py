"""What a user or the world may do wrong, and what they are told: real servers, the real service, real Dagster."""
