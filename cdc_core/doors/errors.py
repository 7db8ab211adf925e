"""HTTP status codes of errors, and the JSON of failures that are no SluiceError."""

from __future__ import annotations

from typing import Any

from cdc_core.errors import (
    AccessDenied,
    ErrorCode,
    PositionError,
    RangeGone,
    SessionError,
    SluiceError,
    UnknownDestination,
)

# The first class that fits. Any other error is 503: the source, the store or the cursor store is unavailable, or the
# destination's configuration is wrong.
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
        "error": ErrorCode.BAD_REQUEST.value,
        "message": message,
        "place": place,
        "hint": "See /docs for the calls and their fields.",
    }


def invalid(errors: list[dict[str, Any]]) -> dict[str, str]:
    """The first wrong field of a request; never its value, which may be a secret."""
    first = errors[0]
    return bad_request(str(first["msg"]), ".".join(str(part) for part in first["loc"]))


def unexpected(error: BaseException) -> dict[str, str]:
    """A fault of the service. Only its class is shown: its text may hold anything."""
    return {
        "error": ErrorCode.INTERNAL.value,
        "message": f"the service failed: {type(error).__name__}",
        "place": "",
        "hint": "The service's log has the traceback; please report it.",
    }
