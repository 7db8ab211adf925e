"""Names of the lake's tables in a catalog: the plan, the notes, and a Hive metastore."""
