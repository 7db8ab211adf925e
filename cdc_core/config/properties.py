"""Java's .properties syntax (`java.util.Properties.load`), and references in values.

`${key}` is another key of the file or of its defaults, else an environment variable; `${key:default}` falls back to the
default. References are resolved when a value is read: a stock file refers to keys that it leaves commented out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cdc_core.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
_KEY = re.compile(r"((?:\\.|[^\\\s=:])*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Property:
    """A value as it stands in the file, without its escapes."""

    value: str = field(repr=False)
    file: Path
    line: int


@dataclass(frozen=True)
class Properties:
    """The keys of one file over those of `defaults`."""

    own: Mapping[str, Property] = field(repr=False)  # passwords are among the values
    environment: Mapping[str, str] = field(repr=False)
    defaults: Properties | None = None

    def find(self, key: str) -> Property | None:
        found = self.own.get(key)
        return found if found is not None or self.defaults is None else self.defaults.find(key)

    def get(self, key: str) -> str | None:
        """The value with its references resolved; None for a key that is not set."""
        found = self.find(key)
        return None if found is None else self._resolve(key, found.value, (key,)).strip()

    def place(self, key: str) -> str:
        found = self.find(key)
        return key if found is None else f"{found.file}:{found.line}: {key}"

    def _resolve(self, key: str, value: str, path: tuple[str, ...]) -> str:
        def target(match: re.Match[str]) -> str:
            name, colon, default = match[1].partition(":")
            if name in path:
                raise ConfigError(
                    f"${{{name}}} refers to itself",
                    place=self.place(key),
                    hint="Remove one of the references that form the circle.",
                )
            found = self.find(name)
            if found is not None:
                return self._resolve(key, found.value, (*path, name))
            if name in self.environment or colon:
                return self.environment.get(name, default)
            raise ConfigError(
                f"${{{name}}} is neither a key nor an environment variable",
                place=self.place(key),
                hint=f"Set {name}, or write ${{{name}:default}}.",
            )

        return _REFERENCE.sub(target, value)


def read_properties(path: Path) -> dict[str, Property]:
    """Raises ConfigError for a file that cannot be read or is malformed. A later line wins over an earlier one."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8: {error.reason}", place=str(path), hint="Save the file as UTF-8.") from error
    except OSError as error:
        raise ConfigError(
            f"cannot read: {error.strerror}",
            place=str(path),
            hint="Name a directory with Canal's properties files (--conf); `sluice init` writes one.",
        ) from error
    found: dict[str, Property] = {}
    for number, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        key, value = (match[1], match[2]) if match else (line, "")
        place = f"{path}:{number}"
        found[_unescape(key, place)] = Property(_unescape(value, place), path, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of the first line, text) of each entry, with continued lines joined."""
    held, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        start = start if held else number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held += line[:-1]
            continue
        yield start, held + line
        held = ""
    if held:
        yield start, held


def _unescape(text: str, place: str) -> str:
    def one(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            raise ConfigError("\\u needs four hexadecimal digits", place=place, hint="Write a backslash as \\\\.")
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _CONTROL.get(escape, escape)

    return _ESCAPE.sub(one, text)
