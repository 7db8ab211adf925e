"""Tests of rows, tables and cursors that are set back on purpose."""
