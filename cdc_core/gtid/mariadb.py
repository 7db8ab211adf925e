"""MariaDB's GTID positions: the last transaction of each domain, `domain-server-number`, separated by commas.

Numbers only rise within a domain, so the last transaction stands for all before it.
Source: MariaDB knowledge base, "Global Transaction ID".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_core.errors import PositionError

_GTID = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")


@dataclass(frozen=True, slots=True)
class GtidPosition:
    """`parts`: (domain, server, number), one for each domain, sorted."""

    parts: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> GtidPosition:
        """Reads what `@@gtid_binlog_pos` shows. Raises PositionError."""
        found: dict[int, tuple[int, int]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            one = _GTID.fullmatch(part)
            if one is None:
                raise PositionError(
                    f"not a GTID position: {text[:200]!r}",
                    place=repr(part[:60]),
                    hint="Give it as @@gtid_binlog_pos has it: 0-1-100,1-2-7.",
                )
            domain, server, number = map(int, one.groups())
            if number >= found.get(domain, (0, -1))[1]:
                found[domain] = server, number
        return cls._of(found)

    @classmethod
    def _of(cls, parts: Mapping[int, tuple[int, int]]) -> GtidPosition:
        return cls(tuple((domain, *parts[domain]) for domain in sorted(parts)))

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, server, number in self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __or__(self, other: GtidPosition) -> GtidPosition:
        """The later transaction of each domain."""
        found = {domain: (server, number) for domain, server, number in self.parts}
        for domain, server, number in other.parts:
            if number >= found.get(domain, (0, -1))[1]:
                found[domain] = server, number
        return self._of(found)

    def __sub__(self, other: GtidPosition) -> GtidPosition:
        """The domains in which this position is ahead."""
        theirs = {domain: number for domain, _, number in other.parts}
        return self._of({d: (s, number) for d, s, number in self.parts if number > theirs.get(d, 0)})

    def __ge__(self, other: GtidPosition) -> bool:
        """Whether it is at least as far as `other` in each domain of `other`."""
        return not other - self
