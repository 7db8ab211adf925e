"""Rules that clients' lakes have: kept with the cursors, and applied to each claim as they were when it was made."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_core.destination.service import CanalService
from cdc_core.errors import ConfigError, RangeGone, SessionError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.rules.rules import Rules, salted
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from cdc_core.session.durable_session import DurableSession
from cdc_core.session.lake_rules import LakeRules
from cdc_core.session.session import Session
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from tests.support.doubles import Tables, block, transaction

EXCLUDED = Rules({"shop.*": TableRule(exclude=("password",))})
RENAMED = Rules({"*": TableRule(rename=(("c0", "number"),))})
HASHED = Rules({"shop.*": TableRule(masks=(("email", Mask(MaskKind.SHA256, salt=Salt("RULES_SALT"))),))})


def lake_rules(nodes: MemoryNodes) -> LakeRules:
    """As the service has them when it starts."""
    found = LakeRules(Cursors(nodes, "shop"), nullcontext)
    for client in (1001, 1002):
        found.load(client)
    return found


def test_rules_outlive_the_service() -> None:
    """Each client has its own."""
    nodes = MemoryNodes()
    lake_rules(nodes).set(1001, EXCLUDED.to_json())

    again = lake_rules(nodes)

    assert again.of(1001) == EXCLUDED
    assert again.fingerprint(1001) == EXCLUDED.fingerprint
    assert not again.of(1002)
    assert again.text(1002) == again.fingerprint(1002) == ""


@pytest.mark.parametrize("text", ["", "[]"])
def test_rules_can_be_taken_away(text: str) -> None:
    """No rules and an empty list are the same."""
    nodes = MemoryNodes()
    rules = lake_rules(nodes)
    rules.set(1001, EXCLUDED.to_json())
    rules.set(1001, text)

    assert not rules.of(1001)
    assert not lake_rules(nodes).of(1001)


def test_rules_that_cannot_be_applied_are_not_kept() -> None:
    """Those of before stay."""
    rules = lake_rules(MemoryNodes())
    rules.set(1001, EXCLUDED.to_json())

    with pytest.raises(ConfigError, match="salt is missing"):
        rules.set(1001, HASHED.to_json())

    assert rules.of(1001) == EXCLUDED


def test_a_salt_is_in_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it is missing after a restart, nothing can be claimed until it is back."""
    nodes = MemoryNodes()
    monkeypatch.setenv("RULES_SALT", "pepper")
    lake_rules(nodes).set(1001, HASHED.to_json())
    monkeypatch.delenv("RULES_SALT")
    salted.cache_clear()  # as a new process begins
    again = lake_rules(nodes)

    kept = nodes.read("/otter/canal/destinations/shop/1001/rules")

    assert kept is not None
    assert b"pepper" not in kept.value
    assert b"RULES_SALT" in kept.value
    assert again.fingerprint(1001) == HASHED.fingerprint
    with pytest.raises(ConfigError, match="salt is missing"):
        again.of(1001)


def test_a_claim_keeps_the_rules_with_which_it_was_made() -> None:
    """So that no answer mixes two of them. The next claim has those of then."""
    store = Store(Ring(Tables().get, 1 << 20))
    start = EntryPosition("mysql-bin.000001", 4)
    here, session = LogPosition("localhost", 3306, start), Session("shop", store.ring, Tables().get, first_batch=1)
    serving = DurableSession(store, session, Cursors(MemoryNodes(), "shop"), here, "", lambda: 0.0)
    serving.restore(1, start)
    assert store.ring.try_put(block(transaction(1, 1)))
    before = serving.claim(1, 1, 0, "me", 60)
    serving.rules.set(1, RENAMED.to_json())
    after = serving.claim(1, 100, 0, "me", 60)

    assert before is not None
    assert after is not None
    assert (before.rules, after.rules) == ("", RENAMED.fingerprint)
    assert "number" in [column.name for column in after.tables[0].schema.shown]
    assert "number" not in [column.name for column in before.tables[0].schema.shown]
    assert not serving.seen_by(1, before.batch_id)
    assert serving.seen_by(1, after.batch_id) == RENAMED
    for claim in (before, after):
        serving.ack(1, claim.batch_id, "me")
    with pytest.raises(RangeGone):
        serving.seen_by(1, after.batch_id)


def test_a_claim_that_waits_for_rows_has_the_rules_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its open snapshots are those of then too: what it changes in them is by one rule."""
    store = Store(Ring(Tables().get, 1 << 20))
    start = EntryPosition("mysql-bin.000001", 4)
    here, session = LogPosition("localhost", 3306, start), Session("shop", store.ring, Tables().get, first_batch=1)
    serving = DurableSession(store, session, Cursors(MemoryNodes(), "shop"), here, "", lambda: 0.0)
    serving.restore(1, start)
    assert store.ring.try_put(block(transaction(1, 1)))
    monkeypatch.setattr(serving.readers, "note", lambda *_, **__: serving.rules.set(1, RENAMED.to_json()))

    claim = serving.claim(1, 100, 0, "me", 60)

    assert claim is not None
    assert claim.rules == RENAMED.fingerprint
    assert serving.seen_by(1, claim.batch_id) == RENAMED


def test_the_client_of_a_message_queue_has_no_rules() -> None:
    """Its entries show all values, so it would send nothing any more."""
    service = object.__new__(CanalService)
    config: Any = SimpleNamespace(destination="shop", queue=SimpleNamespace(client_id=1001))
    object.__setattr__(service, "config", config)

    with pytest.raises(SessionError, match="client 1001 is the message queue's"):
        service.set_rules(1001, EXCLUDED.to_json())
