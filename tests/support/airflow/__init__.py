"""Airflow in an environment of its own, for the example DAG."""
