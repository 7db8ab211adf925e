"""The stages of a change on its way from the source to the lake, as metrics, pages and materializations name them."""

from __future__ import annotations

from collections.abc import Mapping

QUIET, NETWORK, DECODE, STORE = "quiet", "network", "decode", "store"
CLAIM, APPLY, ACK = "claim", "apply", "ack"
PLAN, WRITE = "plan", "write"  # the parts of `apply`, for one table

# What the service measures. The reader is in one of the first four stages at any time, and each client in one of the
# others or in none.
STAGES: Mapping[str, str] = {
    QUIET: "the reader waits until the source sends more",
    NETWORK: "the reader connects, or receives bytes",
    DECODE: "the reader cuts events out of the bytes, and looks at them",
    STORE: "the reader puts events into the store, or waits for room in it",
    CLAIM: "rows wait until a run claims them",
    APPLY: "a claim is out: a run applies it",
    ACK: "an ack is written",
}


def shown(seconds: Mapping[str, float]) -> str:
    """The seconds by stage as a line, without the stages that took none."""
    return ", ".join(f"{stage} {value:.1f} s" for stage, value in seconds.items() if value >= 0.05)
