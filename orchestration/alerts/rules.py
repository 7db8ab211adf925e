"""What a `defs.yaml` can say about alerts: docs/alerts.md. The URLs of receivers hold secrets, so a file names only the
environment variable or the file that has one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

import dagster as dg
from pydantic import field_validator, model_validator

from orchestration.alerts.kinds import OF_MONITOR, OPTIONAL, Kind
from orchestration.freshness import parse_length


def _of_dagster(kinds: list[Kind] | None) -> list[Kind] | None:
    for one in kinds or ():
        if one in OF_MONITOR:
            raise ValueError(f"{one} is said by sluice monitor alone; docs/monitor.md")
    return kinds


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ReceiverRule(dg.Model, dg.Resolvable):
    """Where alerts go: to the URL in the environment variable `url_env`, or in the file `url_file`. `kinds`: these, in
    the place of the destination's."""

    url_env: str = ""
    url_file: str = ""
    kinds: list[Kind] | None = None

    _known = field_validator("kinds")(_of_dagster)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if bool(self.url_env) == bool(self.url_file):
            raise ValueError("give url_env, the name of an environment variable, or url_file, the path of a file")
        if self.url_env and not _VARIABLE.fullmatch(self.url_env):
            raise ValueError("url_env is not the name of an environment variable; the URL itself belongs into one")
        if self.url_file and ("://" in self.url_file or not Path(self.url_file).is_absolute()):
            raise ValueError("url_file is not the absolute path of a file; the URL itself belongs into one")
        return self

    @property
    def name(self) -> str:
        """The receiver's name for people and in the sensor's state."""
        return f"${self.url_env}" if self.url_env else self.url_file


class AlertRules(dg.Model, dg.Resolvable):
    """Who gets messages about which problems of a destination. `lag`: how far the lake may be behind; default: the
    declared freshness. `binlog`: how long before a binlog may be purged; without it, a tenth of the time that
    the source keeps one. `failures`: how many runs in a row. `dagster`: the URL of Dagster's page, for links."""

    to: list[ReceiverRule]
    kinds: list[Kind] | None = None
    lag: str = ""
    binlog: str = ""
    failures: int = 3
    dagster: str = ""

    _known = field_validator("kinds")(_of_dagster)

    @field_validator("to")
    @classmethod
    def _each_once(cls, rules: list[ReceiverRule]) -> list[ReceiverRule]:
        names = [rule.name for rule in rules]
        if not names:
            raise ValueError("is empty; list url_env or url_file of a receiver, or leave alerts out")
        if len(set(names)) < len(names):
            raise ValueError("names a receiver twice")
        return rules

    @field_validator("lag", "binlog")
    @classmethod
    def _is_length(cls, text: str) -> str:
        if text:
            parse_length(text)
        return text

    @field_validator("failures")
    @classmethod
    def _positive(cls, value: int) -> int:
        if value < 1:
            raise ValueError(f"is {value}; it must be at least 1")
        return value

    @field_validator("dagster")
    @classmethod
    def _is_page(cls, url: str) -> str:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("not an http URL; give the address of Dagster's page")
        return url.rstrip("/")

    @property
    def chosen(self) -> frozenset[Kind]:
        """The kinds for which there is a receiver."""
        return frozenset().union(*(self.of(rule) for rule in self.to))

    def of(self, rule: ReceiverRule) -> frozenset[Kind]:
        """The kinds that a receiver gets."""
        named = self.kinds if rule.kinds is None else rule.kinds
        return frozenset(Kind) - OPTIONAL - OF_MONITOR if named is None else frozenset(named)
