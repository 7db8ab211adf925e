"""The capture service: MySQL's binlog in, claims of column batches out. Knows neither Spark nor Dagster."""
