"""Sets properties of a Delta table, and removes features, without Spark and without features that readers lack.

delta-rs 1.6.6 gives a table that lists its features, as one with TIMESTAMP_NTZ does, the feature `variantType` with
each change of its properties. delta-rs reads the table all the same, and other readers do not: Trino, by its
documentation. In a local lake the commit is therefore written here: the table's metadata with the new properties, as a
file that must not exist yet.

In an object store delta-rs commits, and readers need `variantType`: a commit must be a PUT that fails where there is an
object, which neither delta-rs nor pyarrow has for Python, and another client of the store would need credentials of its
own. Other changes of delta-rs add no feature and set no property, and a statement of Spark's cannot carry the versions
that a commit notes.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from spark_jobs.lake.features import BY_DELTA_RS, BY_FEATURES, VECTORS, features_of
from spark_jobs.stores import local_folder

_OF_FILES = {"changeDataFeed", "clustering", VECTORS, "domainMetadata"}  # features that ask nothing of metadata
_KNOWN = BY_DELTA_RS | _OF_FILES
_TIMED = {"inCommitTimestamp", "catalogManaged"}  # features that ask something of each commit
_CHANGES_NO_FEATURE = {
    "delta.checkpointInterval",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.logRetentionDuration",
}  # of Delta's own properties
_CHECKPOINT_EVERY = 10  # commits, where the table does not say
_TRIES = 20
_DRAFT, _DRAFT_LASTS = "_commit_{}.json.tmp", 3600.0  # seconds: a writer has no use for it after a moment


def set_properties(table: DeltaTable, properties: Mapping[str, str], noted: CommitProperties | None = None) -> None:
    """Sets the properties in one commit, with the properties `noted`, and leaves the table at the version of that
    commit: what is committed on it then is refused if others have followed. Raises CommitFailedError if another commit
    came in between that the table's metadata or `noted` do not stand, and what delta-rs raises."""
    folder = None if any(_may_need_feature(*one) for one in properties.items()) else _own_commits(table)
    if folder is None:
        table.alter.set_table_properties(dict(properties), raise_if_not_exists=False, commit_properties=noted)
        return
    tries = 1 if noted is not None and (noted.app_transactions or noted.max_commit_retries == 0) else _TRIES
    commit_here(table, folder, lambda: _actions(table, properties, noted), tries)
    every = int(table.metadata().configuration.get("delta.checkpointInterval", _CHECKPOINT_EVERY))
    if (table.version() + 1) % every == 0:
        write_checkpoint(table, folder)


def without_features(table: DeltaTable, features: Collection[str]) -> bool:
    """Removes features that nothing in the newest version of the table needs, in one commit. Returns False if the
    commit cannot be written here. Raises CommitFailedError as above.

    Delta's DROP FEATURE would add another feature in their place, `checkpointProtection`, which delta-rs does not
    write. It keeps old programs from making checkpoints of old versions; these need the removed features still."""
    folder = commits_folder(table)
    if folder is None or features_of(table) & _TIMED:
        return False
    commit_here(table, folder, lambda: _protocol_without(table, features), _TRIES)
    write_checkpoint(table, folder)
    return True


def commit_here(table: DeltaTable, folder: Path, actions: Callable[[], str], tries: int) -> None:
    """Commits the actions as the next version, or as a later one if other commits left the definition as it is. The
    table is then at the version of that commit, whatever has followed it."""
    opened = _definition(table)
    for _ in range(tries):
        version = table.version() + 1
        done = _written(folder, version, actions())
        table.update_incremental()
        if done:
            if table.version() != version:
                table.load_as_version(version)
            return
        if _definition(table) != opened:
            break
    raise CommitFailedError(f"another commit made version {table.version()} of {table.table_uri}")


def write_checkpoint(table: DeltaTable, folder: Path) -> None:
    """Writes a checkpoint, and removes drafts that writers left when they were killed. Without it the commit stands all
    the same, and the next checkpoint has it."""
    with suppress(DeltaError, OSError):
        table.create_checkpoint()
        for draft in folder.glob(_DRAFT.format("*")):
            if draft.stat().st_mtime < time.time() - _DRAFT_LASTS:
                draft.unlink(missing_ok=True)


def _may_need_feature(name: str, text: str) -> bool:
    return name.startswith("delta.") and name not in _CHANGES_NO_FEATURE and text.lower() != "false"


def _own_commits(table: DeltaTable) -> Path | None:
    """Returns the folder of the commits if they can be written here, and delta-rs would add a feature."""
    by_features = table.protocol().min_writer_version == BY_FEATURES
    return commits_folder(table) if by_features and features_of(table) <= _KNOWN else None


def commits_folder(table: DeltaTable) -> Path | None:
    """Returns the folder of the commits of a local table, None in an object store."""
    folder = local_folder(table.table_uri)
    return folder / "_delta_log" if folder and (folder / "_delta_log").is_dir() else None


def _definition(table: DeltaTable) -> tuple[str, frozenset[str]]:
    """Returns what a commit must not overwrite if somebody else has changed it."""
    return _metadata(table, {}), features_of(table)


def _metadata(table: DeltaTable, properties: Mapping[str, str]) -> str:
    found = table.metadata()
    fields = {
        "id": str(found.id),
        "name": found.name,
        "description": found.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(),
        "partitionColumns": list(found.partition_columns),
        "createdTime": found.created_time,
        "configuration": {**found.configuration, **properties},
    }
    return json.dumps({"metaData": {name: value for name, value in fields.items() if value is not None}})


def _actions(table: DeltaTable, properties: Mapping[str, str], noted: CommitProperties | None) -> str:
    now, more = int(time.time() * 1000), (noted and noted.custom_metadata) or {}
    lines = [commit_info(table, "SET TBLPROPERTIES", {"properties": json.dumps(dict(properties))}, more)]
    lines.append(_metadata(table, properties))
    for one in (noted and noted.app_transactions) or ():
        lines.append(json.dumps({"txn": {"appId": one.app_id, "version": one.version, "lastUpdated": now}}))
    return "\n".join(lines) + "\n"


def _protocol_without(table: DeltaTable, features: Collection[str]) -> str:
    found = table.protocol()
    fields = {
        "minReaderVersion": found.min_reader_version,
        "minWriterVersion": found.min_writer_version,
        "readerFeatures": [one for one in found.reader_features or () if one not in features],
        "writerFeatures": [one for one in found.writer_features or () if one not in features],
    }
    about = commit_info(table, "DROP FEATURE", {"featureName": ", ".join(features)}, {})
    return f"{about}\n{json.dumps({'protocol': fields})}\n"


def commit_info(table: DeltaTable, operation: str, parameters: Mapping[str, str], more: Mapping[str, Any]) -> str:
    """Returns the line of a commit that says what made it, with `more`, such as Delta's user metadata."""
    about = {
        "timestamp": int(time.time() * 1000),
        "operation": operation,
        "operationParameters": parameters,
        "readVersion": table.version(),
        "engineInfo": "sluice",
    }
    return json.dumps({"commitInfo": {**about, **more}})


def _written(folder: Path, version: int, actions: str) -> bool:
    """Writes a commit whole or not at all, and returns False if there is a commit of that version."""
    draft, commit = folder / _DRAFT.format(uuid.uuid4()), folder / f"{version:020d}.json"
    try:
        draft.write_text(actions, encoding="utf-8")
        commit.hardlink_to(draft)
    except FileExistsError:
        return commit.samefile(draft)  # of NFS it may be the second answer to a call that was done
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return True
