"""`sluice init`: writes the configuration of one destination and its defs.yaml. It never replaces a file."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from cdc_core.config import load_instance, load_service
from cdc_core.errors import ConfigError
from spark_jobs.stores import location

_NAME, _ADDRESS, _PLAIN = r"[A-Za-z0-9][A-Za-z0-9_-]*", r"[A-Za-z0-9.-]+(:[0-9]+)?", r"[^\s${}\\#]+"
_SIGNS = "blanks, $, {, }, \\ and #"
_KIND = "orchestration.destination.CdcDestination"

Ask = Callable[[str, str], str]
"""Takes a question and what an empty answer means; returns the answer."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What is to be written; "" is not known yet. `databases` ("*",): all of them."""

    destination: str = ""
    address: str = ""
    user: str = ""
    databases: tuple[str, ...] = ()
    lake: str = ""
    zookeeper: str = ""


def run(conf: Path, defs: Path, given: Answers, *, as_json: bool, ask: Ask | None = None) -> int:
    """Writes the files, and prints what comes next. Raises ConfigError."""
    if ask is None and sys.stdin.isatty() and not as_json:
        ask = _asked
    answers = completed(given, ask)
    written = [conf / "canal.properties", conf / answers.destination / "instance.properties", defs]
    texts = [_service(answers), _instance(answers), _defs(answers, conf)]
    if written[0].exists():  # the service has other destinations
        del written[0], texts[0]
    for path in written:
        if path.exists():
            hint = "Name another --destination or --defs, or remove the file."
            raise ConfigError("the file exists, and is not replaced", place=str(path), hint=hint)
    for path, text in zip(written, texts, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    load_service(conf)
    load_instance(conf, answers.destination, {"MYSQL_PASSWORD": "", **os.environ})
    if as_json:
        print(json.dumps({"written": [str(path) for path in written]}))
    else:
        print("\n".join([*(f"written: {path}" for path in written), "", _next(answers, conf, defs)]))
    return 0


def completed(given: Answers, ask: Ask | None) -> Answers:
    """Returns the answers with those to questions, or with what is usual where nobody can be asked. Raises ConfigError
    for one that is missing or malformed."""
    ask = ask or (lambda _question, usual: usual)
    database = ",".join(given.databases) or ask("Databases to capture, with commas between them", "all")
    found = replace(
        given,
        destination=given.destination or ask("Name of the destination", "mysql"),
        address=given.address or ask("MySQL's host:port", "127.0.0.1:3306"),
        user=given.user or ask("Account in MySQL", "sluice"),
        databases=("*",) if database == "all" else tuple(one.strip() for one in database.split(",")),
        lake=given.lake or ask("Path or URI of the lake", ""),
    )
    _check("--destination", found.destination, _NAME, "a name of letters, digits, - and _, as shop")
    _check("--address", found.address, _ADDRESS, "a host with its port, as db.example.org:3306")
    _check("--user", found.user, _PLAIN, f"an account without {_SIGNS}, as sluice")
    _check("--lake", found.lake, r"[^\s{}]+", "a path or a URI without blanks and braces, as /data/lake")
    if found.zookeeper:
        _check("--zookeeper", found.zookeeper, _PLAIN, "hosts with their ports, as zk1:2181,zk2:2181/sluice")
    for one in found.databases:
        _check("--database", one, r"\*|[^\s${}\\#,]+", f"names without {_SIGNS}, as shop, with commas between them")
    return replace(found, lake=location(found.lake))


def _check(option: str, value: str, pattern: str, form: str) -> None:
    if not re.fullmatch(pattern, value):
        wrong = f"{value!r} cannot be used" if value else "it is missing"
        raise ConfigError(wrong, place=option, hint=f"Give {option}: {form}.")


def _asked(question: str, usual: str) -> str:
    answer = input(f"{question}{f' [{usual}]' if usual else ''}: ").strip()
    return answer or usual


def _service(answers: Answers) -> str:
    cursors = f"canal.zkServers = {answers.zookeeper}" if answers.zookeeper else "# canal.zkServers = 127.0.0.1:2181"
    return f"""\
# What all destinations share. All keys: docs/configuration.md.
canal.metrics.pull.port = 11112
sluice.flight.port = 11113
canal.port = 11111

# Cursors are written to ZooKeeper; without it to files next to this one.
{cursors}

# Every directory next to this file that has an instance.properties is a destination.
canal.auto.scan = true
"""


def _instance(answers: Answers) -> str:
    names = (".*" if one == "*" else re.escape(one) for one in answers.databases)
    tables = ",".join(rf"{name}\..*" for name in names).replace("\\", "\\\\")  # properties have a backslash twice
    return f"""\
canal.instance.master.address = {answers.address}
canal.instance.dbUsername = {answers.user}
canal.instance.dbPassword = ${{MYSQL_PASSWORD}}

# Tables to capture: regular expressions over database.table, commas between them. A backslash is written twice.
canal.instance.filter.regex = {tables}
"""


def _defs(answers: Answers, conf: Path) -> str:
    attributes = {"destination": answers.destination, "lake": answers.lake, "conf": str(conf.absolute())}
    component = {"type": _KIND, "attributes": {**attributes, "snapshot": "initial"}}
    return "# All keys: orchestration/defs/example.yaml.\n" + yaml.safe_dump(component, sort_keys=False)


def _next(answers: Answers, conf: Path, defs: Path) -> str:
    return f"""\
The account in MySQL, if it is not there yet:
  CREATE USER '{answers.user}'@'%' IDENTIFIED BY '...';
  GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{answers.user}'@'%';
Then, with its password in MYSQL_PASSWORD:
  sluice check --conf {conf} --lake {answers.lake}
  sluice up --conf {conf} --lake {answers.lake} --defs {defs}"""
