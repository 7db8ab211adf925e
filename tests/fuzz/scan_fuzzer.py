"""The coverage-guided fuzzer of the compiled scan: libFuzzer, by atheris, over the kernels in plain Python.

Run it by `make fuzz SECONDS=60`, or by `python -m tests.fuzz.scan_fuzzer` with the options of libFuzzer. It starts from
the captured binlogs and writes a finding to `tests/fixtures/crashes`, where `test_scan_fuzzer` tries it from then on.
An index outside of an array is a finding, negative ones included: see `tests.support.uncompiled`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["cdc_core.binlog", "cdc_core.source", "cdc_core.schema"]):
    import tests.support.uncompiled  # noqa: F401  (before all that has kernels)
    from tests.fuzz import target

FINDINGS = Path(__file__).parents[1] / "fixtures" / "crashes"


def main(options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds()):
            (Path(corpus) / f"{number:04d}").write_bytes(seed)
        fixed = ["-max_len=4096", "-timeout=20", "-rss_limit_mb=4096", f"-artifact_prefix={FINDINGS}/"]
        atheris.Setup([sys.argv[0], *fixed, *options, corpus], target.attempt)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
