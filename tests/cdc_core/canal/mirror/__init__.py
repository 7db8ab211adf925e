"""The relational mirror: rules, statements, places."""
