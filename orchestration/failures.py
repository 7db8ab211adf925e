"""Errors on Dagster's pages: message, place and hint."""

from __future__ import annotations

from typing import Any

import dagster as dg

from cdc_core.errors import ConfigError, SluiceError


class TablesUnknown(ConfigError):
    """A destination that cannot be loaded yet: the service does not say yet which tables it has."""


def error_metadata(error: SluiceError) -> dict[str, dg.MetadataValue[Any]]:
    """The parts of an error."""
    return {key: dg.MetadataValue.text(text) for key, text in error.as_dict().items() if text}


def failure(error: SluiceError) -> dg.Failure:
    """The failure that ends a run with this error, without a retry."""
    return dg.Failure(description=str(error), metadata=error_metadata(error), allow_retries=False)
