"""Converts frozen values to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_core.position import EntryPosition


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as they are: nested values are not converted."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def position_to(position: EntryPosition | None) -> dict[str, Any] | None:
    return position.to_dict() if position else None


def position_from(fields: dict[str, Any] | None) -> EntryPosition | None:
    return EntryPosition.from_dict(fields) if fields else None


def known(cls: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The `fields` that the dataclass `cls` has."""
    return {key: value for key, value in fields.items() if key in cls.__dataclass_fields__}  # type: ignore[attr-defined]
