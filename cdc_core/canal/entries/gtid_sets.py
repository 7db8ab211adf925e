"""The field `gtid` of a transaction's entries: all transactions up to this one, as Canal's header has it.

Source: Canal 1.1.8, `LogDecoder` and `LogEventConvert.createHeader`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cdc_core.canal.entries.wire import text
from cdc_core.compiled.kernel import Ints
from cdc_core.gtid import Gtids, parse_gtids
from cdc_core.gtid.mysql import GtidSet

_CURRENT = 14  # where the value of the first prop, `curtGtid`, starts, after its size
_FIELD = 13


class ExecutedTexts:
    """The set as far as the entries of a claim have come. `before`: what lies before the claim; without it the field
    stays empty."""

    def __init__(self, before: object) -> None:
        self._gtids = before if isinstance(before, Gtids) else None

    def __repr__(self) -> str:
        return f"<Executed {self._gtids}>"

    def fields(self, props: npt.NDArray[np.uint8], sizes: Ints) -> Sequence[bytes]:
        """The header's field for each transaction of a window, by its props."""
        return [self._after(bytes(prop[: int(size)])) for prop, size in zip(props, sizes, strict=True)]

    def _after(self, prop: bytes) -> bytes:
        if self._gtids is None or len(prop) <= _CURRENT:
            return b""
        current = prop[_CURRENT : _CURRENT + prop[_CURRENT - 1]].decode()
        flavor = "mysql" if isinstance(self._gtids, GtidSet) else "mariadb"
        self._gtids = self._gtids | parse_gtids(current, flavor)  # type: ignore[operator]
        return text(_FIELD, str(self._gtids))
