"""The report of a week's soak: each value by its measure, 80 columns, failures by name and figure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc_core.errors import ConfigError
from tests.support.growth import Finding, Measure, Outcome
from tests.support.growth_report import failures, reasons, table
from tests.support.samples import Sample
from tests.support.week_measures import ACKED, KILLS, MEASURES, STAY, findings, measure_of

Values = Callable[[float], dict[str, float]]


def week(more: Values = lambda _: {}) -> list[Finding]:
    """The findings of an hour in which rows come steadily, and of `more` values."""

    def usual(hour: float) -> dict[str, float]:
        return {
            "service: memory": 300 - 60 * 2.718 ** (-hour * 20),
            "service: open files": 40,
            ACKED: 900 * hour,
            "ledger: rows": 900 * hour,
            "lake: commits": 5000 * hour,
            "lake: files": 9000 * hour,
            "lake: bytes": 4000 * hour,
            "log of shop/account: commits": 900 * hour,
            "log of shop/account: files": 1500 * hour,
            KILLS: 40 * hour,
            STAY: 30 * hour,
            "dagster: job_ticks": 9000 * hour,
        }

    hours = [second / 3600 for second in range(0, 3600, 5)]
    return findings([Sample(hour * 3600, usual(hour) | more(hour), {"service": 1}) for hour in hours], 3600)


def test_a_usual_week_passes() -> None:
    """What grows by the lake's rows, by batches and by what is kept for longer than an hour."""
    found = week()
    assert failures(found) == []
    outcomes = {one.name: one.outcome for one in found}
    assert outcomes["ledger: rows"] is outcomes["log of shop/account: files"] is Outcome.LEVEL
    assert outcomes["lake: bytes"] is outcomes["dagster: job_ticks"] is Outcome.SHOWN


def test_a_leak_fails_by_name_and_figure() -> None:
    """Of memory, of file descriptors, and of rows for which there is no batch."""
    found = week(
        lambda hour: {
            "service: memory": 300 + 96 * hour,
            "daemon: open files": 20 + round(30 * hour),
            "ledger: rows": 1000 * hour,
        }
    )
    memory, files, rows = failures(found)
    assert memory == "service: memory GROWS by +96.0 MB an hour; 30.0 MB is allowed (355.9 to 387.9 MB)"
    assert files.startswith("daemon: open files GROWS by +30")
    assert rows.startswith("ledger: rows GROWS by +1,000 an hour, +100.0 of it without a reason; 20.0 is allowed")


def test_what_could_not_be_sampled_fails_too() -> None:
    """It is not known to be level."""
    found = week(lambda hour: {"mysql: connections": 9.0} if hour < 0.4 else {})
    assert failures(found) == ["mysql: connections is UNKNOWN: it was hardly sampled in the judged half"]


def test_a_shorter_soak_is_allowed_as_much() -> None:
    """It is a week too: caches fill up in the same time. A leak of more than that fails."""

    def memory(each: float) -> list[Finding]:
        seconds = range(0, 900, 5)
        return findings([Sample(at, {"service: memory": 300 + each * at / 900}, {"service": 1}) for at in seconds], 900)

    assert failures(memory(25)) == []
    (text,) = failures(memory(40))
    assert text.startswith("service: memory GROWS by +160.0 MB an hour; 120.0 MB is allowed")


def test_the_table_has_80_columns() -> None:
    """Names and figures of any length in their columns, in the order of the measures."""
    found = week(lambda hour: {"dagster: asset_daemon_asset_evaluations": 1e9 * hour, "log of x: files": 0.0})
    lines = table(found)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("service: memory                MB       300.0    300.0") for line in lines)
    assert any(line.startswith("dagster: asset…set_evaluations        5.8e+08") for line in lines)
    assert [line.split(":")[0] for line in lines[2:4]] == ["soak", "service"]
    assert max(map(len, reasons(found))) <= 80
    assert any(line.startswith("  VACUUM keeps a week: lake: files, lake: bytes") for line in reasons(found))


def test_every_value_has_a_measure() -> None:
    """A new probe's values must be given one. No pattern hides a later one."""
    with pytest.raises(ConfigError, match="nobody said"):
        measure_of("moon: phase")
    assert [measure_of(one.pattern) for one in MEASURES] == [*MEASURES]
    assert measure_of("webserver: memory").allowed == 25


def test_reasons_are_values_that_are_sampled() -> None:
    """Each is one with a measure of its own, or of the same part."""
    named = [name for one in MEASURES for name in one.explained if not name.startswith(":")]
    assert all(isinstance(measure_of(name), Measure) for name in named)
