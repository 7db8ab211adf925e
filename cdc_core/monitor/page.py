"""The monitor's page, which loads nothing from other hosts.

It works without JavaScript; with it, the page fetches its body at each look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from starlette.responses import HTMLResponse

from cdc_core import doors
from cdc_core.doors.html import environment, page
from cdc_core.monitor.history import LagHistory
from cdc_core.monitor.looking import Findings
from cdc_core.monitor.views import ClusterView, DestinationView

_POINTS = 144  # of a plot: one for ten minutes
_WIDTH, _HEIGHT = 240.0, 34.0
_ENDED = 20
_STYLES = Path(doors.__file__).parent / "http" / "templates"


class MonitorPage:
    """Writes the body once for each look, however many browsers ask for it. `notes` are of the monitor itself."""

    def __init__(
        self, findings: Callable[[], Findings], history: LagHistory, every: float, notes: Callable[[], Sequence[str]]
    ) -> None:
        self._findings, self._history, self._every, self._notes = findings, history, every, notes
        self._written: tuple[Findings, str] | None = None

    def answer(self, part: str = "") -> HTMLResponse:
        """The whole page, or with `part="body"` the part that changes."""
        body = self._body()
        if part == "body":
            return page(_environment(), "monitor_part.html", body=body)
        return page(_environment(), "monitor.html", body=body, who="monitor", every=self._every)

    def _body(self) -> str:
        found = self._findings()
        if self._written is None or self._written[0] is not found:
            self._written = found, _environment().get_template("monitor_body.html").render(**self._values(found))
        return self._written[1]

    def _values(self, found: Findings) -> dict[str, Any]:
        def plots(cluster: ClusterView, destination: DestinationView, client_id: int) -> list[tuple[str, str, float]]:
            key = cluster.name, destination.name, client_id
            series = (
                ("s", self._history.seconds(key, _POINTS)),
                ("bytes", self._history.nbytes(key, _POINTS)),
            )
            return [
                (unit, path_of(values, _WIDTH, _HEIGHT), max(known))
                for unit, values in series
                if (known := [one for one in values if one is not None])
            ]

        alarms = sorted(found.alarms.now.values(), key=lambda one: -one.began)
        ended = found.alarms.ended[:_ENDED]
        return {"notes": self._notes(), "picture": found.picture, "alarms": alarms, "ended": ended, "plots": plots}


@cache
def _environment() -> Environment:
    return environment(FileSystemLoader([Path(__file__).parent / "templates", _STYLES]))


def path_of(values: Sequence[float | None], width: float, height: float) -> str:
    """The path in SVG of a line from the oldest value to the newest: the highest one is at the top. It has gaps where
    nothing is known."""
    top = max((one for one in values if one is not None), default=0.0) or 1.0
    step = width / max(1, len(values) - 1)
    parts, drawn = [], False
    for at, value in enumerate(values):
        if value is None:
            drawn = False
            continue
        y = height - 1 - (height - 2) * max(0.0, value) / top
        parts.append(f"{'L' if drawn else 'M'}{at * step:.1f},{y:.1f}" + ("" if drawn else "h.8"))
        drawn = True
    return "".join(parts)
