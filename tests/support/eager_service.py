"""`sluice server` whose definitions of tables retire after tens instead of thousands, and whose volumes are small:
`python -m tests.support.eager_service server --conf DIR`."""

from __future__ import annotations

import sys
from functools import partial

from cdc_core.destination import capture, kept, sweep
from cdc_core.store.disk import numbers
from orchestration.cli import main

if __name__ == "__main__":
    sweep._SECONDS = 0.2
    capture.Sweep = partial(sweep.Sweep, least=8)  # type: ignore[misc,assignment]
    numbers._RETIRED = 5
    kept.volume_bytes = lambda _room: 6000
    sys.exit(main())
