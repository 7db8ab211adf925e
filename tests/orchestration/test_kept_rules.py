"""Runs and jobs have the service keep the rules of their defs.yaml."""

from __future__ import annotations

import pytest

from cdc_core.client.connector import Connector
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import ConfigError, SessionError
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from orchestration.resources import CanalResource
from tests.support.door_double import TABLE, Destination, Server, opened

RULES = Rules({TABLE: TableRule(exclude=("qty",))})
HASHED = Rules({TABLE: TableRule(masks=(("name", Mask(MaskKind.SHA256, salt=Salt("NO_SUCH_SALT"))),))})


def test_the_service_has_the_rules_before_a_run_claims() -> None:
    """A run also takes rules away; a job of a defs.yaml without rules leaves them to the runs."""
    destination = Destination()
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        ruled = CanalResource(destination="shop", http_url=door.url, rules=RULES.to_json())
        plain = CanalResource(destination="shop", http_url=door.url, rules=Rules().to_json())
        with ruled.reading() as connector:
            assert connector.rules() == RULES
        with plain.reading() as connector:
            assert connector.rules() == RULES
        with plain.draining() as connector:
            assert not connector.rules()
        with ruled.draining() as connector:
            assert connector.rules() == RULES


def test_a_run_does_not_begin_with_rules_that_the_service_cannot_apply() -> None:
    """The error names the salt."""
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        canal = CanalResource(destination="shop", http_url=door.url, rules=HASHED.to_json())
        with pytest.raises(ConfigError, match="a salt is missing") as caught, canal.draining():
            pass
    assert "NO_SUCH_SALT" in caught.value.hint


def test_a_job_does_not_begin_without_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would read what they hide. Only a client that is not subscribed is left alone: it can read nothing."""

    def refused(*_: object) -> None:
        raise SessionError("the client is the message queue's", hint="")

    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        canal = CanalResource(destination="shop", http_url=door.url, rules=RULES.to_json())
        monkeypatch.setattr(Connector, "set_rules", refused)
        with pytest.raises(SessionError, match="message queue's"), canal.reading():
            pass
        monkeypatch.setattr(Connector, "client_status", refused)
        with canal.reading() as connector, pytest.raises(SessionError):
            connector.rules()
