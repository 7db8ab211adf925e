"""A destination while no capture runs: its status, and the error that a client's call gets, for each state of its life.

Pure: `holder` says who holds the destination's seat where several servers share it.
"""

from __future__ import annotations

from cdc_core.contract.failover import Detected
from cdc_core.contract.status import ActiveServer, ErrorReport, SourceStatus, Status
from cdc_core.destination.lifecycle import Phase, State
from cdc_core.errors import RunsElsewhere, RunsNowhere, SessionError, SluiceError, SourceUnavailable
from cdc_core.ha.candidacy import Holder

STOPPED_BY_HAND = "stopped by an operator"
LAZY = "lazy: reads when a client first asks"

_WORDS = {
    Phase.LAZY: "lazy",
    Phase.STANDBY: "standby",
    Phase.FAILED: "failed",
    Phase.REFUSED: "failed",
    Phase.STOPPED: "stopped",
    Phase.ENDED: "stopped",
}
_NOTES = {Phase.LAZY: LAZY, Phase.STOPPED: STOPPED_BY_HAND}


def idle_status(name: str, state: State, holder: Holder) -> Status:
    """Without a store; its source is the server that would be read."""
    config, source = state.configuration.config, state.source
    address = source.address if source else config.address if config and state.error is None else None
    error = ErrorReport.of(state.error, state.since) if state.error else None
    detected = Detected(source.role, None, source.switches, source.switched) if source else None
    standby = state.phase is Phase.STANDBY
    if standby and holder.error is not None:
        error = ErrorReport.of(holder.error)
    return Status(
        name,
        _WORDS.get(state.phase, "starting"),
        SourceStatus(address, detected=detected),
        error=error,
        note=_NOTES.get(state.phase),
        active=ActiveServer(holder.address or None, holder.http or None) if standby else None,
    )


def refusal(name: str, state: State, holder: Holder) -> SluiceError:
    """To be raised for a call while no capture runs. `holder`: who runs the destination, if servers share it."""
    if state.error is not None:
        return state.error.with_traceback(None)
    if state.phase is Phase.STANDBY:
        return _standby(name, holder)
    if state.phase is Phase.STOPPED:
        hint = f"Start it: sluice destination start {name}"
        return SessionError(f"destination {name} was stopped by an operator", place=name, hint=hint)
    if state.phase is Phase.ENDED:
        hint = "If it was removed, add its configuration again; else call when the service is up."
        return SourceUnavailable(f"destination {name} was removed", place=name, hint=hint)
    return SourceUnavailable(f"destination {name} is starting: it has not connected yet", hint="Call again.")


def _standby(name: str, holder: Holder) -> SluiceError:
    if holder.error is not None:
        return holder.error
    if holder.here or not holder.address:  # our own address: left from before a restart, or about to be taken
        return RunsNowhere(f"no server runs destination {name} now", place=name, hint="Call again in some seconds.")
    return RunsElsewhere(
        f"this server is on standby for destination {name}: {holder.address} runs it",
        place=holder.address,
        hint=f"Call {holder.http}." if holder.http else "Look for the active server in ZooKeeper.",
    )


def rewind_refusal(name: str, state: State, holder: Holder) -> SluiceError:
    """Why cursors cannot be set here."""
    if state.phase is Phase.STANDBY:
        return _standby(name, holder)
    return SessionError(
        f"destination {name} does not run here, and another server may run it",
        place=name,
        hint=f"Start it here, or ask the server that runs it: sluice destination start {name}",
    )
