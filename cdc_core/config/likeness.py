"""Finds the key that an unknown key was meant to be.

Without this check the default of the intended key would be used in silence: another server, other tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from cdc_core.config.models import INSTANCE_KEYS, SERVICE_KEYS
from cdc_core.config.properties import Properties
from cdc_core.errors import ConfigError

_ALIKE = 0.88  # of the part after the prefix
_PREFIX = re.compile(r"canal\.instance\.|canal\.|sluice\.")
_GROUP = re.compile(r"(canal\.instance\.(?:master|standby))\d+(\..+)")
"""Canal's group instance numbers the servers that one destination reads together."""


def check_names(unknown: Iterable[str], properties: Properties) -> None:
    """Raises ConfigError for a key that looks like one that is not set, and for a server with a number."""
    for key in unknown:
        if grouped := _GROUP.fullmatch(key):
            raise ConfigError(
                f"{key}: a destination reads one server, and servers have no numbers",
                place=properties.place(key),
                hint=f"Make a destination for each server, and set {grouped[1]}{grouped[2]} in each.",
            )
        meant = meant_by(key)
        if meant and not properties.get(meant):
            hint = f"Write {meant} instead, or remove the line."
            raise ConfigError(f"{key} is an unknown key; {meant} is not set", place=properties.place(key), hint=hint)


def meant_by(key: str) -> str:
    """Returns the key that looks most like an unknown one, or ""."""
    prefix = _PREFIX.match(key)
    start = prefix[0] if prefix else ""
    known = {one.removeprefix(start).lower(): one for one in SERVICE_KEYS | INSTANCE_KEYS if one.startswith(start)}
    (name,) = get_close_matches(key.removeprefix(start).lower(), known, 1, _ALIKE) or ("",)
    return known.get(name, "")
