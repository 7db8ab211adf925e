"""Sets a local Delta table back to the rows of an earlier version in one commit, without Spark and without writing a
row: the commit removes the files that only the newest version has, and adds those that only the earlier one had.

It is the commit that Spark's REPLACE TABLE would make, with the columns of then. What is not known to be right in this
way, such as a table with column mapping, is left to Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from spark_jobs.lake.features import APPEND_ONLY, BY_DELTA_RS, BY_FEATURES, CHANGE_FEED, VECTORS, features_of, is_on
from spark_jobs.lake.own_columns import Own
from spark_jobs.lake.properties import commit_here, commit_info, commits_folder
from spark_jobs.undo.earlier_files import Links, UnknownForm, files_at

_KNOWN = BY_DELTA_RS | {VECTORS, "domainMetadata"}
_PLAIN_WRITERS, _PLAIN_READERS = 2, 1  # the protocols that ask nothing of files but their columns
_OPERATION = "CREATE OR REPLACE TABLE AS SELECT"  # in Spark's words


@dataclass(frozen=True, slots=True)
class SetBack:
    """The commit: `properties` are all that the table has then, `comment` is the table's; `app` and `upto` its
    transaction, `about` its user metadata."""

    properties: Mapping[str, str]
    comment: str
    app: str
    upto: int
    about: str


def set_back(now: DeltaTable, then: DeltaTable, wanted: SetBack) -> bool:
    """Makes the commit on the version of `now`, and returns whether it was made: Spark must make it otherwise. Raises
    CommitFailedError if another commit came in between, DeltaError."""
    log = commits_folder(now)
    if log is None or not _is_plain(now, then, wanted.properties):
        return False
    links = Links(log.parent)
    try:
        text = _commit(log, now, then, wanted, links)
    except (UnknownForm, OSError, ValueError, LookupError):  # gone, or not understood: Spark says what is wrong
        links.undo()
        return False
    try:
        commit_here(now, log, lambda: text, 1)
    except CommitFailedError:  # another error says nothing of the commit: it may stand, and need the links
        links.undo()
        raise
    return True


def _commit(log: Path, now: DeltaTable, then: DeltaTable, wanted: SetBack, links: Links) -> str:
    """Returns the commit, whose files are linked. Raises UnknownForm, OSError, ValueError, LookupError."""
    files = _Files.of(log, now.version(), then.version(), links)
    if files.vectored and VECTORS not in features_of(now):
        raise UnknownForm("the table has lost the feature of these files")
    lines = [_about(now, then, wanted, files), {"metaData": _metadata(now, then, wanted)}, *files.actions()]
    lines.append({"txn": {"appId": wanted.app, "version": wanted.upto, "lastUpdated": _now()}})
    return "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)


@dataclass(frozen=True, slots=True)
class _Files:
    gone: list[dict[str, Any]]
    come: list[dict[str, Any]]
    rows: int  # of the earlier version

    @classmethod
    def of(cls, log: Path, now: int, then: int, links: Links) -> _Files:
        """Returns the files that the commit removes, and those that it adds, which are linked. Raises UnknownForm,
        OSError."""
        here, there = files_at(log, now), files_at(log, then)
        come = [add for file, add in there.items() if file not in here]
        if not all("stats" in add for add in there.values()):
            raise UnknownForm("the log does not say how many rows a file has")
        gone = [add for file, add in here.items() if file not in there]
        return cls(gone, [links.of(add) for add in come], sum(map(_living, there.values())))

    @property
    def vectored(self) -> bool:
        return any("deletionVector" in add for add in self.come)

    def actions(self) -> list[dict[str, Any]]:
        kept = ("path", "partitionValues", "size", "deletionVector", "tags")
        removed = [{name: add[name] for name in kept if name in add} for add in self.gone]
        marks = {"deletionTimestamp": _now(), "dataChange": True, "extendedFileMetadata": True}
        added = [{"add": {**add, "dataChange": True}} for add in self.come]
        return [{"remove": one | marks} for one in removed] + added


def _living(add: Mapping[str, Any]) -> int:
    return int(json.loads(add["stats"]).get("numRecords", 0)) - int(add.get("deletionVector", {}).get("cardinality", 0))


def _is_plain(now: DeltaTable, then: DeltaTable, properties: Mapping[str, str]) -> bool:
    """Whether such a commit asks nothing of a writer but the files: the table has no feature, property or column that
    is not known here."""
    for table in (now, then):
        protocol, settings = table.protocol(), table.metadata().configuration
        if protocol.min_writer_version > _PLAIN_WRITERS and protocol.min_writer_version != BY_FEATURES:
            return False
        if protocol.min_writer_version <= _PLAIN_WRITERS and protocol.min_reader_version > _PLAIN_READERS:
            return False
        if not features_of(table) <= _KNOWN or any(is_on(settings, one) for one in (APPEND_ONLY, CHANGE_FEED)):
            return False
    fields = then.schema().fields
    return (
        features_of(then) <= features_of(now)
        and then.protocol().min_writer_version <= now.protocol().min_writer_version
        and then.protocol().min_reader_version <= now.protocol().min_reader_version
        and not any(one.metadata.keys() - {"comment"} for one in fields)
        and {*Own.of(properties).names} <= {one.name for one in fields}
    )


def _metadata(now: DeltaTable, then: DeltaTable, wanted: SetBack) -> dict[str, Any]:
    found = {
        "id": str(uuid4()),
        "name": now.metadata().name,
        "description": wanted.comment or None,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": then.schema().to_json(),
        "partitionColumns": list(then.metadata().partition_columns),
        "configuration": dict(wanted.properties),
        "createdTime": _now(),
    }
    return {name: value for name, value in found.items() if value is not None}


def _about(now: DeltaTable, then: DeltaTable, wanted: SetBack, files: _Files) -> str:
    parameters = {
        "isManaged": "false",
        "description": wanted.comment,
        "partitionBy": json.dumps(list(then.metadata().partition_columns)),
        "properties": json.dumps(dict(wanted.properties)),
    }
    metrics = {"numFiles": str(len(files.come)), "numOutputRows": str(files.rows)}
    return commit_info(now, _OPERATION, parameters, {"operationMetrics": metrics, "userMetadata": wanted.about}) + "\n"


def _now() -> int:
    return int(time.time() * 1000)
