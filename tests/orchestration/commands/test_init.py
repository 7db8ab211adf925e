"""`sluice init`: the files that it writes are those that the service and Dagster read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cdc_core.config import destinations, load_instance, load_service
from cdc_core.errors import ConfigError
from cdc_core.stream.filter import make_filter
from orchestration.commands.init import Answers, completed, run
from orchestration.destination import CdcDestination

GIVEN = Answers("orders", "db.example.org:3307", "cdc", ("shop", "my-db"), "/data/lake", "zk1:2181,zk2:2181/sluice")


def test_what_is_written_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The service has the address, the account and the tables; the defs.yaml names a component with its attributes."""
    conf, defs = tmp_path / "conf", tmp_path / "orders" / "defs.yaml"

    assert run(conf, defs, GIVEN, as_json=False) == 0

    service, report = load_service(conf)
    instance, _ = load_instance(conf, "orders", {"MYSQL_PASSWORD": "secret"})
    captured = make_filter(instance.filter_regex, instance.filter_black_regex)
    component = yaml.safe_load(defs.read_text())
    assert (report.unknown, report.unsupported) == ((), ())
    assert (service.zk_servers, destinations(service)) == (GIVEN.zookeeper, ["orders"])
    assert (instance.address, instance.user, instance.password.get_secret_value()) == (
        "db.example.org:3307",
        "cdc",
        "secret",
    )
    assert [captured(*name) for name in (("shop", "a"), ("my-db", "b"), ("shops", "a"), ("sh", "a"))] == [
        True,
        True,
        False,
        False,
    ]
    assert component["type"] == f"{CdcDestination.__module__}.{CdcDestination.__name__}"
    assert component["attributes"]["lake"] == "/data/lake"
    assert f"sluice check --conf {conf} --lake /data/lake" in capsys.readouterr().out


def test_a_lake_in_the_working_directory_is_written_as_a_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster's code server may run in another directory."""
    monkeypatch.chdir(tmp_path)

    assert completed(Answers(lake="lake"), None).lake == str(tmp_path / "lake")
    assert completed(Answers(lake="s3a://bucket/lake"), None).lake == "s3a://bucket/lake"


def test_an_option_that_is_missing_is_asked_for_with_an_example() -> None:
    """Not with the expression that it has to fit."""
    with pytest.raises(ConfigError, match="missing") as refused:
        completed(Answers(), None)

    assert (refused.value.place, "/data/lake" in refused.value.hint) == ("--lake", True)


def test_a_second_destination_joins_the_first(tmp_path: Path) -> None:
    """The service's file stays; no file is ever replaced."""
    conf = tmp_path / "conf"
    run(conf, tmp_path / "a.yaml", GIVEN, as_json=True)
    (conf / "canal.properties").write_text("canal.auto.scan = true\n")

    with pytest.raises(ConfigError, match="not replaced"):
        run(conf, tmp_path / "b.yaml", GIVEN, as_json=True)
    run(conf, tmp_path / "b.yaml", Answers("users", lake="/data/lake"), as_json=True)

    assert (conf / "canal.properties").read_text() == "canal.auto.scan = true\n"
    assert destinations(load_service(conf)[0]) == ["orders", "users"]


def test_questions_fill_in_what_no_option_says() -> None:
    """An empty answer is the usual one."""
    told = {"MySQL's host:port": "db:3306", "Path or URI of the lake": "s3://bucket/lake"}
    asked: list[str] = []

    def ask(question: str, usual: str) -> str:
        asked.append(question)
        return told.get(question, usual)

    found = completed(Answers(user="cdc"), ask)

    assert found == Answers("mysql", "db:3306", "cdc", ("*",), "s3://bucket/lake")
    assert "Account in MySQL" not in asked


@pytest.mark.parametrize(
    "wrong",
    [Answers(), Answers(lake="/a", destination="../x"), Answers(lake="/a", address="db 1"), Answers(lake="/a b")],
)
def test_what_cannot_be_used_is_named(wrong: Answers) -> None:
    """A lake that nobody named, and values that would break the files."""
    with pytest.raises(ConfigError) as failed:
        completed(wrong, None)

    assert failed.value.place.startswith("--")
    assert failed.value.place in failed.value.hint
