"""Tests of spark_jobs.check."""
