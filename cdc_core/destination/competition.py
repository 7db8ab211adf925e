"""A destination's part in the competition of servers: it enlists, competes for its seat, and writes under its term.

Without peers there is nobody to compete with, and each call does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cdc_core.destination import events as e
from cdc_core.destination.mailbox import Mailbox
from cdc_core.ha.candidacy import Candidacy, Holder
from cdc_core.ha.election import Term
from cdc_core.ha.monitor import Office
from cdc_core.meta.nodes import Nodes


class Peers(Protocol):
    """The servers that share the destinations, as one of them sees them."""

    def enlist(self, destination: str) -> None: ...

    def delist(self, destination: str) -> None: ...

    def candidacy(self, destination: str, office: Office) -> Candidacy: ...


class Competition:
    """The monitor's events come into `mailbox`. `left` says whether nothing of a lost term runs any more. Only the
    mailbox's thread changes `candidacy`, which is None while the destination does not compete."""

    def __init__(
        self, name: str, peers: Peers | None, mailbox: Mailbox[e.Event], left: Callable[[e.TermLost], bool]
    ) -> None:
        self._name, self._peers, self._mailbox, self._left = name, peers, mailbox, left
        self.candidacy: Candidacy | None = None

    def __repr__(self) -> str:
        return f"<Competition {self._name} {self.candidacy or ''}>"

    def enlist(self) -> None:
        if self._peers:
            self._peers.enlist(self._name)

    def delist(self) -> None:
        if self._peers:
            self._peers.delist(self._name)

    def compete(self, seat: int) -> None:
        """Returns at once. The term comes as an event."""
        if self._peers:
            self.candidacy = self._peers.candidacy(self._name, _Office(self._mailbox, seat, self._left))
            self.candidacy.start()

    def withdraw(self) -> None:
        """Returns when the seat has been given back."""
        if self.candidacy:
            self.candidacy.stop()
            self.candidacy = None

    def holder(self) -> Holder:
        """Who holds the seat, as far as is known here."""
        candidacy = self.candidacy
        return candidacy.holder() if candidacy else Holder()

    def nodes(self, term: Term | None) -> Nodes | None:
        """Those of a term, whose writes are refused when it is over; None without a term."""
        candidacy = self.candidacy
        return candidacy.nodes(term) if term is not None and candidacy is not None else None


@dataclass(frozen=True, slots=True)
class _Office:
    """What the monitor of one candidacy calls. `leave` returns when nothing of the term runs any more: the seat is
    given back after it."""

    mailbox: Mailbox[e.Event]
    seat: int
    left: Callable[[e.TermLost], bool]

    def enter(self, term: Term) -> None:
        self.mailbox.post(e.TermWon(self.seat, term))

    def leave(self) -> None:
        lost = e.TermLost(self.seat)
        self.mailbox.post(lost)
        self.mailbox.wait(lambda: self.left(lost))
