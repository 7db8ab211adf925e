"""Row images into Arrow, a column at a time, with one compiled kernel per family of types."""

from cdc_core.binlog.columns.batch import arrow_fields, arrow_type, decode

__all__ = ["arrow_fields", "arrow_type", "decode"]
