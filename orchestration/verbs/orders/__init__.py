"""What a person can ask for: one model for each verb. Its fields are a command's options and a job's configuration.

The models import nothing heavy, so that `--help` answers at once. The module of the verb, in the room above, has the
`run` that does the work.
"""

from __future__ import annotations

from orchestration.verbs.orders.cursor import Reset, Rollback
from orchestration.verbs.orders.loading import Copy, Remake, Snapshot
from orchestration.verbs.orders.order import WHOLE, Cli, Order
from orchestration.verbs.orders.past import Redo, Replay, Restore, Undo
from orchestration.verbs.orders.stopped import Accept, Ddl, Drop, Pause, Requeue, Resume
from orchestration.verbs.orders.upkeep import Maintain, Register, Verify

JOBS: tuple[type[Order], ...] = (
    Accept,
    Copy,
    Ddl,
    Drop,
    Maintain,
    Pause,
    Redo,
    Register,
    Remake,
    Replay,
    Requeue,
    Reset,
    Restore,
    Resume,
    Rollback,
    Snapshot,
    Undo,
    Verify,
)

__all__ = [
    "JOBS",
    "WHOLE",
    "Accept",
    "Cli",
    "Copy",
    "Ddl",
    "Drop",
    "Maintain",
    "Order",
    "Pause",
    "Redo",
    "Register",
    "Remake",
    "Replay",
    "Requeue",
    "Reset",
    "Restore",
    "Resume",
    "Rollback",
    "Snapshot",
    "Undo",
    "Verify",
]
