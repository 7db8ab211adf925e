"""Whether a run went on from the place to which a restore set the cursor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_core.contract.client_status import ClaimStatus, ClientStatus
from cdc_core.contract.reached import How, Reached
from cdc_core.position import EntryPosition
from orchestration.verbs.restore import went_on
from spark_jobs.undo.restore import LakePlace

AT, LATER = EntryPosition("bin.000001", 100), EntryPosition("bin.000001", 200)
PLACE = LakePlace(3, AT)
SET = ClientStatus(1, AT, Reached(How.RESET, 3, AT), 3, 0, 0, 0, 0, 0, (), (), 0, 0)
OURS, THEIRS = (ClaimStatus(number, "me", 0.0, AT, LATER, 1) for number in (7, 8))


class TestWentOn:
    @pytest.mark.parametrize(
        ("status", "batch"),
        [
            (SET, None),
            (replace(SET, claims=(OURS,)), 7),
            (replace(SET, cursor=LATER), None),  # over transactions without rows
            (replace(SET, reached=Reached(How.BATCH, 2, LATER)), None),
            (replace(SET, reached=None), None),
        ],
    )
    def test_still_there(self, status: ClientStatus, batch: int | None) -> None:
        """Nothing was acked since, and nothing is claimed but what is held."""
        assert not went_on(status, PLACE, batch)

    @pytest.mark.parametrize(
        ("status", "batch"),
        [
            (replace(SET, claims=(THEIRS,)), None),
            (replace(SET, claims=(THEIRS,)), 7),
            (replace(SET, claims=(OURS, THEIRS)), 7),
            (SET, 7),  # the claim was lost
            (replace(SET, reached=Reached(How.BATCH, 3, LATER)), None),
            (replace(SET, epoch=4), None),
            (replace(SET, reached=None, cursor=LATER), None),
        ],
    )
    def test_gone(self, status: ClientStatus, batch: int | None) -> None:
        """Rows were acked in the epoch, another run may be applying some, or the cursor was set elsewhere."""
        assert went_on(status, PLACE, batch)
