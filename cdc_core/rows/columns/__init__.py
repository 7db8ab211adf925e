"""Values of one column in, an Arrow array out: a file for each family of types."""
