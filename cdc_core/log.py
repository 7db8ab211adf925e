"""The log: one event a line, as JSON or as columns for a terminal. Values with a secret's name are hidden.

An event is `log.info("what happened", destination=..., ...)`; an error's parts go in as `**error.as_dict()`.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

_SECRETS = ("password", "passwd", "token", "secret", "authorization", "auth")
_HIDDEN = "***"


def configure(stream: TextIO = sys.stderr, *, as_json: bool | None = None, level: int = logging.INFO) -> None:
    """Call once a process. Unless `as_json` says otherwise, a terminal gets columns and anything else JSON."""
    plain = stream.isatty() if as_json is None else not as_json
    last: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if plain
        else [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # our own errors report the same, once


def hide_secrets(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Replaces every value whose key names a secret, at any depth."""
    return {key: _hide(key, value) for key, value in event.items()}


def _hide(key: str, value: Any) -> Any:
    if any(secret in key.lower() for secret in _SECRETS):
        return _HIDDEN
    if isinstance(value, dict):
        return {str(name): _hide(str(name), inner) for name, inner in value.items()}
    return value
