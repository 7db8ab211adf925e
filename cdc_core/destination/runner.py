"""One destination as a server holds it, from the first look at its configuration to its end.

Events come in from any thread, `lifecycle` decides what they mean, and the actions are performed here: one event after
the other, so that actions are done in the order of the decisions. While a capture runs, clients are served by it; else
they get the state's refusal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import structlog

from cdc_core.config.models import InstanceConfig
from cdc_core.contract.status import Status
from cdc_core.destination import events as e
from cdc_core.destination.capture import PAUSES, Capture
from cdc_core.destination.competition import Competition, Peers
from cdc_core.destination.idle import idle_status, refusal, rewind_refusal
from cdc_core.destination.lifecycle import Phase, State, step
from cdc_core.destination.mailbox import Mailbox
from cdc_core.destination.metrics import Metrics
from cdc_core.destination.refilter import captured_by
from cdc_core.destination.rewind import RewindPlan, carry_out
from cdc_core.destination.servers import address_of_cursors
from cdc_core.destination.service import CanalService
from cdc_core.errors import SluiceError
from cdc_core.memory import collect_soon
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Nodes
from cdc_core.source.settings import SourceSettings, source_settings

_CONNECT_SECONDS = 10.0  # that a client waits for the destination that it woke
_LOOK_SECONDS = 0.05
_BROKEN_SECONDS = 1.0  # for each thread of a capture of which not all threads could be started

log = structlog.get_logger(__name__)


class Destination:
    """`nodes` hold its cursors. Without `peers` it always runs here. `clock` is in epoch seconds; `pauses` are the
    shortest and the longest between two attempts to read the source, in seconds. Only `_handle` changes the state."""

    def __init__(
        self,
        name: str,
        found: e.Configuration,
        nodes: Nodes,
        peers: Peers | None = None,
        clock: Callable[[], float] = time.time,
        pauses: tuple[float, float] = PAUSES,
    ) -> None:
        self.name = name
        self._nodes, self._clock, self._pauses = nodes, clock, pauses
        self._state = State(competes=peers is not None)
        self._mailbox: Mailbox[e.Event] = Mailbox(name, self._handle)
        self._run: _Run | None = None  # whose threads may still be alive
        self._competition = Competition(name, peers, self._mailbox, self._left)
        self._mailbox.tell(e.Scanned(found))

    def __repr__(self) -> str:
        return f"<Destination {self.name} {self._state.phase.name} {self.capture or ''}>"

    # -- life; each call returns when what follows from it has been done

    def start(self) -> None:
        """The service is up."""
        self._mailbox.tell(e.Started())

    def end(self, why: str) -> None:
        """For ever. Outstanding claims are lost with it: their rows are read again from the cursor."""
        self._mailbox.tell(e.Ended(why))

    def scan(self, found: e.Configuration) -> None:
        """Takes in what its files say now."""
        self._mailbox.tell(e.Scanned(found))

    def start_by_hand(self, found: e.Configuration) -> None:
        self._mailbox.tell(e.StartedByHand(found))

    def stop_by_hand(self) -> None:
        self._mailbox.tell(e.StoppedByHand())

    def reload_by_hand(self, found: e.Configuration) -> None:
        self._mailbox.tell(e.ReloadedByHand(found))

    # -- clients

    def service(self) -> CanalService:
        """For one call. Wakes a lazy destination and waits until it has connected. Raises the state's refusal."""
        if self._state.phase is Phase.LAZY:
            self._mailbox.tell(e.Woken())
            deadline = time.monotonic() + _CONNECT_SECONDS
            while self.status().state == "starting" and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS)
        capture = self.capture
        if capture is None:
            raise refusal(self.name, self._state, self._competition.holder())
        return capture.service

    # -- looking

    @property
    def config(self) -> InstanceConfig:
        """The defaults where its files cannot be read."""
        known = self._state.configuration.config
        return known or InstanceConfig.model_validate({"canal.instance.destination": self.name})

    @property
    def refused(self) -> bool:
        """Its configuration cannot be used: it may be mended without being written, so it is read at each scan."""
        return self._state.phase is Phase.REFUSED

    @property
    def capture(self) -> Capture | None:
        """The one that reads now."""
        run, state = self._run, self._state
        return run.capture if run is not None and state.phase is Phase.READING and run.number == state.run else None

    def status(self) -> Status:
        capture = self.capture
        return capture.status() if capture else idle_status(self.name, self._state, self._competition.holder())

    def metrics(self) -> Metrics:
        capture = self.capture
        return capture.metrics() if capture else Metrics()

    # -- cursors

    @property
    def cursors(self) -> Cursors:
        return Cursors(self._nodes, self.name)

    def source_settings(self) -> SourceSettings:
        """Of the server that is read, or would be. Raises CursorError, and ConfigError without a configuration."""
        capture, known = self.capture, self._state.configuration
        if capture is not None:
            return capture.settings
        if known.config is None and known.error is not None:
            raise known.error.with_traceback(None)
        return source_settings(self.config, self._address())

    def rewind(self, planned: RewindPlan) -> None:
        """Sets the cursors as planned, with the capture stopped meanwhile."""
        done: Future[dict[int, int]] = Future()

        def work(nodes: Nodes) -> None:
            try:
                cursors = Cursors(nodes, self.name)
                cursors.finish_move()  # its clients go to the place from the server that they are read from now
                done.set_result(carry_out(cursors, planned))
            except Exception as error:
                done.set_exception(error)

        self._mailbox.tell(e.Rewound(work))
        if not done.done():
            raise rewind_refusal(self.name, self._state, self._competition.holder())
        position = str(planned.position.postion)
        log.warning("cursors set by an operator", destination=self.name, position=position, epochs=done.result())

    def _address(self) -> str:
        """Of the server that the cursors belong to. Raises CursorError."""
        if len(self.config.sources) == 1:
            return self.config.sources[0]
        return address_of_cursors(self.config, map(self.cursors.read, self.cursors.clients()))

    # -- events and actions

    def _handle(self, event: e.Event) -> None:
        before = self._state
        self._state, actions = step(before, event, self._clock())
        self._log_change(before)
        for action in actions:
            report = self._perform(action)
            if report is not None:
                self._handle(report)

    def _perform(self, action: e.Action) -> e.Report | None:
        match action:
            case e.Enlist():
                self._competition.enlist()
            case e.Delist():
                self._competition.delist()
            case e.Compete(seat):
                self._competition.compete(seat)
            case e.Withdraw():
                self._competition.withdraw()
            case e.Locate(run):
                return self._attempt(run, lambda: e.Located(run, self._address()))
            case e.LookAgain(run, seconds):
                timer = threading.Timer(seconds, self._mailbox.post, (e.Due(run),))
                timer.daemon = True
                timer.start()
            case e.Begin(run, source):
                return self._attempt(run, lambda: self._begin(run, source))
            case e.End(why, seconds):
                self._end(why, seconds)
            case e.SetCursors(work):
                work(self._term_nodes())
        return None

    def _attempt(self, run: int, work: Callable[[], e.Report | None]) -> e.Report | None:
        try:
            return work()
        except SluiceError as error:
            return e.NotBegun(run, error)
        except Exception as error:
            log.exception("destination cannot begin", destination=self.name)
            hint = "Report this with the service's log: a bug. It is tried again."
            return e.NotBegun(run, SluiceError(str(error) or "an unexpected error", place=self.name, hint=hint))

    def _begin(self, run: int, source: e.Source) -> None:
        capture = Capture(
            captured_by(self.config, self.cursors),
            self._term_nodes(),
            self._clock,
            self._pauses,
            source=source,
            on_failed=lambda why: self._mailbox.post(e.SourceFailed(run, why)),
            on_replaced=lambda: self._mailbox.post(e.SourceReplaced(run)),
            on_damaged=lambda: self._mailbox.post(e.StoreFailed(run)),
        )
        self._run = _Run(run, self._state.seat, capture)
        try:
            capture.start()
        except BaseException:  # one of its threads may run, but not all
            self._end("it cannot begin", _BROKEN_SECONDS)
            raise

    def _end(self, why: str, seconds: float) -> None:
        if self._run is not None:
            log.info("destination stops", destination=self.name, why=why)
            self._run.capture.stop(seconds)
            self._run = None
            self._mailbox.notify()
            collect_soon()

    def _term_nodes(self) -> Nodes:
        """Those of the present term, or those without terms where there is none."""
        return self._competition.nodes(self._state.term) or self._nodes

    def _left(self, lost: e.TermLost) -> bool:
        """Nothing runs any more that was begun on this seat, and nothing will."""
        state, run, seat = self._state, self._run, lost.seat
        over = state.seat != seat or (state.term is None and not self._mailbox.holds(lost))
        return over and (run is None or run.seat != seat)

    def _log_change(self, before: State) -> None:
        state, source = self._state, self._state.source
        if state.error is not None and str(state.error) != str(before.error):
            what = "destination refused" if self.refused else "destination failed"
            log.error(what, destination=self.name, **state.error.as_dict())
        if source is not None and source.switched is not None and source != before.source:
            log.error("switching to the other server", destination=self.name, **source.switched.to_dict())


@dataclass(frozen=True, slots=True)
class _Run:
    """A capture, the number of its attempt, and the seat that it was begun on."""

    number: int
    seat: int
    capture: Capture
