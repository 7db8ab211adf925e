"""Tests of what is expected of a batch's rows, without Spark."""
