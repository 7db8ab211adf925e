"""Programs of others that read the lake, in an environment of their own."""
