"""Errors on their way out: which status code each has, and their one JSON form."""

from __future__ import annotations

from typing import Any

from cdc_core.errors import (
    AccessDenied,
    PositionError,
    RangeGone,
    SessionError,
    SluiceError,
    UnknownDestination,
)

# The first that fits; whatever is left is the source, the store or the cursor store being away,
# or a destination whose own configuration is wrong.
_STATUS: tuple[tuple[type[SluiceError], int], ...] = (
    (AccessDenied, 401),
    (UnknownDestination, 404),
    (RangeGone, 410),
    (SessionError, 409),
    (PositionError, 400),
)
AWAY = 503


def status_of(error: SluiceError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), AWAY)


def bad_request(message: str, place: str) -> dict[str, str]:
    return {
        "error": "BadRequest",
        "message": message,
        "place": place,
        "hint": "The page /docs lists each call with its fields.",
    }


def invalid(errors: list[dict[str, Any]]) -> dict[str, str]:
    """The first thing that is wrong with a request's fields; never the value, which may be a secret."""
    first = errors[0]
    return bad_request(str(first["msg"]), ".".join(str(part) for part in first["loc"]))


def unexpected(error: BaseException) -> dict[str, str]:
    """A fault of ours: told by its kind alone, since its text may hold anything."""
    return {
        "error": "InternalError",
        "message": f"the service failed: {type(error).__name__}",
        "place": "",
        "hint": "The service's log has the traceback; please report it.",
    }
