"""The error for a table whose rows break an expectation."""

from __future__ import annotations

from cdc_core.errors import TableStopped


class TableBlocked(TableStopped):
    """A table stays as it was because of its rows, which a person may accept. Place: the table."""
