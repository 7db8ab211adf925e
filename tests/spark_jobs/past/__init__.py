"""What a part of the past changed."""
