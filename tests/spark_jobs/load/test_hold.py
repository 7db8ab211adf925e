"""What a copy holds back, without a service."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.contract.client_status import ClaimStatus
from cdc_core.errors import SessionError
from cdc_core.position import EntryPosition
from spark_jobs.load.hold import held

AT = EntryPosition("bin.000001", 4)
CLAIM = Claim("shop", 1001, 7, AT, AT, (), 0, 0, 0, (), 0, "copy", 0.0)
OTHER = ClaimStatus(6, "run", 0.0, AT, AT, 1)


class Service:
    """Hands out `claims` one after another; `others` is who else has claims out."""

    destination, client_id = "shop", 1001

    def __init__(self, claims: list[Claim | None], others: tuple[ClaimStatus, ...]) -> None:
        self.claims, self.others, self.asked = claims, others, 0
        self.given_back: list[int] = []

    def get_without_ack(self, _: int, **__: Any) -> Claim | None:
        self.asked += 1
        return self.claims.pop(0) if self.claims else None

    def client_status(self) -> Service:
        """`claims` of a status are those of others."""
        status = Service([], self.others)
        status.claims = self.others  # type: ignore[assignment]
        return status

    def renew(self, *_: Any) -> float:
        return 0.0

    def rollback(self, claim: Claim, **_: Any) -> list[int]:
        self.given_back.append(claim.batch_id)
        return [claim.batch_id]


def test_what_is_held_is_given_back_also_after_an_error() -> None:
    """Nothing is acked."""
    service = Service([CLAIM], ())
    with pytest.raises(ZeroDivisionError), held(cast(Connector, service), "copy"):
        raise ZeroDivisionError
    assert service.given_back == [7]


def test_another_run_is_waited_for() -> None:
    """Until it has acked or given back; without end only so long."""
    service = Service([None, None, CLAIM], (OTHER,))
    with held(cast(Connector, service), "copy"):
        assert service.asked == 3
    clock = iter([0.0, 1.0, 1000.0])
    with (
        pytest.raises(SessionError, match="batch 6 is claimed by run"),
        held(cast(Connector, Service([], (OTHER,))), "copy", lambda: next(clock)),
    ):
        pass


def test_nothing_is_held_where_nothing_waits() -> None:
    """The copy goes on."""
    service = Service([], ())
    with held(cast(Connector, service), "copy") as hold:
        hold.check()
    assert service.given_back == []
