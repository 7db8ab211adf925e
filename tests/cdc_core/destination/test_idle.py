"""What a destination says while no capture runs, for each state of its life."""

from __future__ import annotations

import pytest

from cdc_core.destination import events as e
from cdc_core.destination.idle import idle_status, refusal, rewind_refusal
from cdc_core.destination.lifecycle import Phase, State
from cdc_core.errors import (
    CursorError,
    RunsElsewhere,
    RunsNowhere,
    SessionError,
    SluiceError,
    SourceUnavailable,
)
from cdc_core.ha.candidacy import Holder

AWAY = CursorError("away", place="memory", hint="Again.")
THERE = Holder("10.0.0.2:11111", "http://10.0.0.2:11112")


@pytest.mark.parametrize(
    ("phase", "word", "error", "hint"),
    [
        (Phase.NEW, "starting", SourceUnavailable, "Call again."),
        (Phase.LAZY, "lazy", SourceUnavailable, "Call again."),
        (Phase.STARTING, "starting", SourceUnavailable, "Call again."),
        (Phase.READING, "starting", SourceUnavailable, "Call again."),
        (Phase.STANDBY, "standby", RunsElsewhere, "Call http://10.0.0.2:11112."),
        (Phase.STOPPED, "stopped", SessionError, "Start it: sluice destination start shop"),
        (Phase.ENDED, "stopped", SourceUnavailable, "add its configuration again"),
    ],
)
def test_every_state_has_its_word_and_its_refusal(phase: Phase, word: str, error: type[SluiceError], hint: str) -> None:
    """Only a standby says which server is active, and only a state that rests on purpose has a note."""
    state = State(phase=phase)
    status = idle_status("shop", state, THERE)
    assert status.state == word
    assert (status.active is not None) == (phase is Phase.STANDBY)
    assert (status.note is not None) == (phase in (Phase.LAZY, Phase.STOPPED))
    refused = refusal("shop", state, THERE)
    assert type(refused) is error
    assert hint in refused.hint


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.REFUSED])
def test_a_failed_destination_refuses_with_its_error(phase: Phase) -> None:
    """Status and refusal are the error itself, with the time at which it began."""
    state = State(phase=phase, error=AWAY, since=7.0)
    status = idle_status("shop", state, Holder())
    assert status.error is not None
    assert (status.state, status.error.message, status.error.since) == ("failed", "away", 7.0)
    assert refusal("shop", state, Holder()) is AWAY


@pytest.mark.parametrize(
    ("holder", "error"),
    [
        (Holder(), RunsNowhere),
        (Holder("10.0.0.1:11111", here=True), RunsNowhere),
        (Holder("10.0.0.2:11111"), RunsElsewhere),
        (Holder(error=AWAY), CursorError),
    ],
)
def test_a_standby_sends_clients_where_the_destination_runs(holder: Holder, error: type[SluiceError]) -> None:
    """Nowhere while nobody holds the seat, or while the seat is our own and about to be taken."""
    state = State(competes=True, phase=Phase.STANDBY)
    for refused in (refusal("shop", state, holder), rewind_refusal("shop", state, holder)):
        assert type(refused) is error


def test_the_source_of_a_capture_that_begins_is_known() -> None:
    """Between two captures the status has the server that the next one reads."""
    source = e.Source("10.0.0.2:3306", "standby", 1)
    status = idle_status("shop", State(phase=Phase.READING, source=source), Holder())
    assert status.source.address == "10.0.0.2:3306"
    assert status.source.detected is not None
    assert (status.source.detected.role, status.source.detected.switches) == ("standby", 1)
