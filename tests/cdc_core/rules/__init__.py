"""Rules of a lake: what they make of definitions, statements and claims."""
