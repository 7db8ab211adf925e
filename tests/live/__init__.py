"""The whole way on real servers: MySQL, ZooKeeper, the service, Spark, Delta and Dagster."""
