"""What a rule makes of one column of the source: values that the column's definition carries.

A salt is named by an environment variable. Its bytes are in the memory of who masks values and in no text: neither
`repr` nor the JSON forms have them. `check` tells two salts apart without saying what they are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

_CHECKED = 6  # hexadecimal digits: enough to notice another salt


class MaskKind(StrEnum):
    """What a mask puts in the place of a value. NULL stays NULL."""

    SHA256 = "sha256"  # 64 hexadecimal digits: SHA-256 of the salt followed by the value's text
    NULL = "null"
    TRUNCATE = "truncate"  # the first characters; of bytes the first bytes
    KEEP_LAST = "keep_last"  # the last ones
    CONSTANT = "constant"


class Cast(StrEnum):
    """Which columns have another type in the lake than they have without a rule."""

    TINYINT1 = "tinyint1"  # TINYINT(1) as boolean: all but 0 is true
    BIGINT_UNSIGNED = "bigint_unsigned"  # as bigint, which does not hold values from 2**63 on
    ENUM = "enum"  # as the number of the label: 1 for the first, 0 for an invalid value
    BIT1 = "bit1"  # BIT(1) as 0 or 1
    DATETIME_TIMESTAMP = "datetime_timestamp"  # DATETIME as the instant that it is in a zone
    DATETIME_STRING = "datetime_string"  # as the server writes it; zero dates too


UTC = "UTC"
ZeroDates = Literal["fail", "null", "string"]  # what a zero, partial or impossible date does
_SAME_VALUES = (None, Cast.BIGINT_UNSIGNED, Cast.DATETIME_STRING)


@dataclass(frozen=True, slots=True)
class Salt:
    """The salt in the environment variable `variable`. `secret` is empty where it was not read."""

    variable: str
    check: str = ""
    secret: bytes = field(default=b"", repr=False, compare=False)

    def filled(self, secret: bytes) -> Salt:
        """The same with its bytes."""
        check = hashlib.sha256(b"sluice salt\x00" + secret).hexdigest()[:_CHECKED]
        return Salt(self.variable, check, secret)


@dataclass(frozen=True, slots=True)
class Mask:
    """`length` is that of TRUNCATE and KEEP_LAST, `constant` the text of CONSTANT, `salt` that of SHA256."""

    kind: MaskKind
    length: int = 0
    constant: str = ""
    salt: Salt | None = None

    @property
    def keeps_apart(self) -> bool:
        """Whether different values stay different."""
        return self.kind is MaskKind.SHA256

    @property
    def unfilled(self) -> Mask:
        """The same as it is configured: without a word of what its salt is."""
        return replace(self, salt=Salt(self.salt.variable)) if self.salt else self

    def to_dict(self) -> dict[str, Any]:
        salt = [self.salt.variable, self.salt.check] if self.salt else None
        return {"kind": self.kind.value, "length": self.length, "constant": self.constant, "salt": salt}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Mask:
        salt = Salt(*fields["salt"]) if fields["salt"] else None
        return cls(MaskKind(fields["kind"]), fields["length"], fields["constant"], salt)


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """`source`: the column's name at the source. An excluded column is hidden, and has no other name; the values of
    another one may have another type and a mask. `zone`: in which a DATETIME is an instant. `expression`: of a computed
    column, which the source does not have (`cdc_core.rules.expressions`). `zero_dates`: None for the destination's."""

    source: str
    excluded: bool = False
    mask: Mask | None = None
    cast: Cast | None = None
    zone: str = UTC
    expression: str = ""
    zero_dates: ZeroDates | None = None

    @property
    def changes_values(self) -> bool:
        """Whether the lake's values are not the source's, written in whichever type. In UTC an instant is written as
        its DATETIME."""
        if self.cast is Cast.DATETIME_TIMESTAMP and self.zone == UTC:
            return self.mask is not None
        return bool(self.expression) or self.mask is not None or self.cast not in _SAME_VALUES

    def to_dict(self) -> dict[str, Any]:
        mask, zone = self.mask.to_dict() if self.mask else None, {"zone": self.zone} if self.zone != UTC else {}
        cast = self.cast and self.cast.value
        more = {"expression": self.expression} if self.expression else {}
        more |= {"zero_dates": self.zero_dates} if self.zero_dates else {}
        return {"source": self.source, "excluded": self.excluded, "mask": mask, "cast": cast} | zone | more

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ColumnRule:
        mask = Mask.from_dict(fields["mask"]) if fields["mask"] else None
        cast = Cast(fields["cast"]) if fields["cast"] else None
        zone, expression, dates = fields.get("zone", UTC), fields.get("expression", ""), fields.get("zero_dates")
        return cls(fields["source"], fields["excluded"], mask, cast, zone, expression, dates)
