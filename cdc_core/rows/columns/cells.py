"""The values of one column that a family of types decodes, and the errors about them.

Says nothing of where values end in an event: that is `rows.images`' task. A kernel never reads beyond `data`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cdc_core.compiled.fault import Answer, Fault
from cdc_core.compiled.kernel import Bytes, Longs
from cdc_core.errors import DecodeError
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.table import Column

_MESSAGES = {
    Fault.SHORT: "the value reaches beyond the event's data",
    Fault.MALFORMED: "its type does not allow these bytes",
    Fault.TOO_LARGE: "the batch has more than 2 GiB of bytes in this column",
}
_DAMAGED = "The binlog is damaged, or an unknown server version wrote it: compare with mysqlbinlog --verbose."


@dataclass(frozen=True, slots=True)
class Cells:
    """One column's values. `starts[image]` is where a value starts in `data`; negative for NULL. `place` gives the
    binlog position of an image's event, for errors. `in_key`: the column belongs to the primary key."""

    table: str
    column: Column
    data: Bytes
    starts: Longs
    zero_dates: ZeroDates = "fail"
    place: Callable[[int], str] | None = None
    in_key: bool = False

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column.name}"

    def present(self) -> Bytes:
        """1 for a value, 0 for NULL."""
        return (self.starts >= 0).view(np.uint8)

    def error(self, image: int, what: str, hint: str = _DAMAGED) -> DecodeError:
        """The error about one value, with the value's first bytes. Of a column with a mask it says nothing of the
        value."""
        start = int(self.starts[image])
        head = bytes(self.data[start : start + 12]).hex(" ") if start >= 0 else "NULL"
        if self.column.mask:
            what, head = "its bytes are damaged, or of a refused value", "masked"
        place = self.place(image) if self.place else ""
        return DecodeError(f"{self.name}, row image {image}: {what} ({head})", place=place, hint=hint)

    def check(self, answer: Answer) -> None:
        """Raises the DecodeError for a kernel's answer."""
        code, image = answer
        if code == Fault.TOO_LARGE:
            raise self.error(image, _MESSAGES[Fault.TOO_LARGE], "Claim fewer rows at a time (batch_size).")
        if code != Fault.OK:
            raise self.error(image, _MESSAGES[Fault(code)])
