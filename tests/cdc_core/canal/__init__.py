"""What Canal's clients see."""
