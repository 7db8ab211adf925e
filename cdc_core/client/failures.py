"""Errors as they come back over the wire: the same classes that the service raised, told apart by name.

Needs nothing but the errors themselves, so that Spark's workers can import it cheaply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdc_core.errors import SluiceError


class ServiceUnavailable(SluiceError):
    """The service cannot be reached, or did not answer in time: worth trying again."""


def error_from(fields: Mapping[str, Any]) -> SluiceError:
    """The error that `SluiceError.as_dict()` told of; of a name not known here, the base class."""
    name = str(fields.get("error", ""))
    message, place, hint = (str(fields.get(key) or "") for key in ("message", "place", "hint"))
    kind = {cls.__name__: cls for cls in _family(SluiceError)}.get(name)
    if kind is None:
        return SluiceError(f"{name}: {message}" if name else message, place=place, hint=hint)
    return kind(message, place=place, hint=hint)


def unavailable(url: str, reason: object) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"the service does not answer: {reason}", place=url, hint="Is it running there? `sluice status` asks it."
    )


def _family(cls: type[SluiceError]) -> Iterator[type[SluiceError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _family(child)
