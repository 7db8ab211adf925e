"""The events and actions of `lifecycle`: what happens to a destination, and the reactions. Only values.

A report of an attempt carries the attempt's number, `run`; that of a candidacy the candidacy's, `seat`. A report whose
number is out of date changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc_core.config.models import InstanceConfig
from cdc_core.contract.failover import Switch
from cdc_core.errors import SluiceError
from cdc_core.ha.election import Term
from cdc_core.meta.nodes import Nodes

Work = Callable[[Nodes], None]


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a destination's files say. `error`: why that cannot be used; `config` is None where they cannot be read."""

    config: InstanceConfig | None = None
    error: SluiceError | None = None

    def same_as(self, other: Configuration) -> bool:
        return self.config == other.config and str(self.error) == str(other.error)


@dataclass(frozen=True, slots=True)
class Source:
    """The server that is read, its `address` as `host:port`. `switches` counts those of this term, `switched` is the
    last of them."""

    address: str
    role: str
    switches: int = 0
    switched: Switch | None = None


# -- what happens


@dataclass(frozen=True, slots=True)
class Started:
    """The service is up: sources may be read."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """A look at the configuration directory."""

    found: Configuration


@dataclass(frozen=True, slots=True)
class StartedByHand:
    """A lazy one too; one that is active goes on as it is."""

    found: Configuration


@dataclass(frozen=True, slots=True)
class StoppedByHand:
    """Until it is started, or its configuration changes."""


@dataclass(frozen=True, slots=True)
class ReloadedByHand:
    """Ended and set up again, whether anything changed or not."""

    found: Configuration


@dataclass(frozen=True, slots=True)
class Ended:
    """It was removed from the directory, or the service stops."""

    why: str


@dataclass(frozen=True, slots=True)
class Woken:
    """A client asks."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """Cursors are to be set by hand. `work` sets them, and nobody else may write them meanwhile."""

    work: Work


@dataclass(frozen=True, slots=True)
class TermWon:
    """The seat is ours."""

    seat: int
    term: Term


@dataclass(frozen=True, slots=True)
class TermLost:
    """The seat is ours no more."""

    seat: int


@dataclass(frozen=True, slots=True)
class Located:
    """The cursors belong to the server at `address`."""

    run: int
    address: str


@dataclass(frozen=True, slots=True)
class NotBegun:
    """The cursors cannot be read, or no capture can be made."""

    run: int
    error: SluiceError


@dataclass(frozen=True, slots=True)
class Due:
    """The pause after a failed attempt is over."""

    run: int


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The server that is read misses its heartbeats, and the other one answers."""

    run: int
    why: str


@dataclass(frozen=True, slots=True)
class SourceReplaced:
    """Another server answers at the address that is read."""

    run: int


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """What is on disk cannot be read any more."""

    run: int


Report = Located | NotBegun | Due | SourceFailed | SourceReplaced | StoreFailed
ByHand = StartedByHand | StoppedByHand | ReloadedByHand
Event = Started | Scanned | ByHand | Ended | Woken | Rewound | TermWon | TermLost | Report


# -- what to do


@dataclass(frozen=True, slots=True)
class Enlist:
    """Say in ZooKeeper that this server could run the destination."""


@dataclass(frozen=True, slots=True)
class Delist:
    """Take that back."""


@dataclass(frozen=True, slots=True)
class Compete:
    """For the seat, from now on."""

    seat: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Give the seat back, and compete no more."""


@dataclass(frozen=True, slots=True)
class Locate:
    """Find the server that the cursors belong to."""

    run: int


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Report Due after a pause."""

    run: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Begin:
    """A capture of this source."""

    run: int
    source: Source


@dataclass(frozen=True, slots=True)
class End:
    """The capture, waiting at most so long for each of its threads."""

    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SetCursors:
    """Do the work over the nodes of the present term."""

    work: Work


Action = Enlist | Delist | Compete | Withdraw | Locate | LookAgain | Begin | End | SetCursors
