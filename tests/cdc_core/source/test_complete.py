"""From where on a dump gets everything that its server writes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start import continuity
from cdc_core.source.start.continuity import complete_from

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CONNECTION = cast("Any", object())
END = EntryPosition("mysql-bin.000002", 500)


def start(gtids: str) -> EntryPosition:
    return EntryPosition("mysql-bin.000001", 100, gtid=GtidSet.parse(gtids) if gtids else None)


@pytest.mark.parametrize(
    ("by_gtid", "gtids", "lacks", "expected"),
    [
        (False, "", "", start("")),
        (False, f"{SERVER}:1-5", "", start(f"{SERVER}:1-5")),
        (True, "", "", start("")),
        (True, f"{SERVER}:1-5", "", END),
        (True, f"{SERVER}:1-5", f"{SERVER}:4-5", None),
    ],
)
def test_by_gtid_everything_comes_after_what_the_set_has(
    monkeypatch: pytest.MonkeyPatch, by_gtid: bool, gtids: str, lacks: str, expected: EntryPosition | None
) -> None:
    """After the end that the binlog has once the server has executed all of the set; nowhere before that."""
    asked: list[str] = []

    def answers(what: str, value: Any) -> Any:
        asked.append(what)
        return value

    monkeypatch.setattr(continuity, "missing", lambda *_: answers("missing", lacks))
    monkeypatch.setattr(continuity, "current_end", lambda _: answers("end", END))
    settings = SourceSettings("db", 3306, "canal", "secret", by_gtid=by_gtid)
    assert complete_from(CONNECTION, settings, start(gtids)) == expected
    assert asked in ([], ["missing"], ["missing", "end"])  # the end of what was executed by then, not before
