"""A full disk under the cursors: claim and cursor stay as they are, and go on when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.errors import CursorError
from tests.bad_input.disk import fill
from tests.bad_input.world import MakeWorld

pytestmark = pytest.mark.integration


def test_a_full_disk_under_the_cursors(make_world: MakeWorld, small_disk: Path) -> None:
    """The ack fails and may be repeated; the file stays whole throughout."""
    world = make_world(service={"canal.zkServers": "", "canal.file.data.dir": small_disk})
    file = small_disk / "shop" / "cursors.json"
    world.sql("INSERT INTO orders VALUES (1, 'a')")
    claim = world.hold()
    before = file.read_bytes()
    ballast = fill(small_disk)

    with pytest.raises(CursorError, match="cannot write the cursors: No space left on device"):
        world.connector().ack(claim)

    world.reports("CursorError", "No space left on device", str(file), "the disk is not full")
    assert file.read_bytes() == before
    assert [c.batch_id for c in world.connector().client_status().claims] == [claim.batch_id]
    ballast.unlink()
    world.other_goes_on()
    assert world.connector().ack(claim) == claim.end
    world.healed()
    assert file.read_bytes() != before
