"""A plot as a path of SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def path_of(values: Sequence[float | None], width: float, height: float) -> str:
    """The path of a line from the oldest value to the newest: the highest one is at the top. It has gaps where nothing
    is known."""
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
