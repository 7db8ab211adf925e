"""Makes the staged files the table's own, in one commit of delta-rs that names copies of them.

No row is rewritten. It is possible if the files have the table's own columns. The commit has all rows, the table's app
id and the copy's mark. It is the first commit of a new table, and replaces all files of an existing table. That table
must be at the version that was looked at: fenced by this run, with the definition of the new rows, before the copy's
mark. If another commit came in between, nothing is written. History and properties stay, and files go with their
deletion vectors. Tables with features that say more of their files are left to Spark.

The table's properties follow. A switch that is killed between the two commits is done again: for a new table by
`claim_own`, for an existing one because its mark was noted before. Spark takes no part.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Field, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileSelector, FileType, PyFileSystem, copy_files

from cdc_core.errors import LakeError
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.features import BY_DELTA_RS, VECTORS, takes_any_files
from spark_jobs.lake.layout import LAYOUT
from spark_jobs.lake.own_columns import OWN
from spark_jobs.lake.properties import set_properties
from spark_jobs.lake.record import app_versions, marked_property
from spark_jobs.lake.state import DESTINATION, FENCE, TABLE
from spark_jobs.lake.statistics import new_file
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import delta_type
from spark_jobs.load.files import StagedFile
from spark_jobs.load.replacement import Replacement, Target
from spark_jobs.load.result import WentOn
from spark_jobs.stores import local_folder

_QUIET = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_COPIES = 4  # files copied at once
_CHUNK = 8 << 20  # bytes of each that are in memory
_COPY = re.compile(r"[0-9a-f]{32}\.parquet")


def exchangeable(table: DeltaTable, new: Replacement) -> bool:
    """Whether the table has the new rows' definition, and no feature that needs more of files than their names."""
    state = new.state
    if state is None or state.dropped or state.unfilled:
        return False
    if (state.columns, state.comment) != (new.columns, new.schema.comment):
        return False
    return takes_any_files(table, BY_DELTA_RS | {VECTORS})


def exchange(table: DeltaTable, added: Sequence[AddAction], new: Replacement) -> None:
    """Replaces the table's files by `added`. Raises WentOn if the table has changed, DeltaError and OSError if it
    cannot be written."""
    target, mark, once = new.target, new.mark.upto, CommitProperties(max_commit_retries=0)
    applied, fence = table.transaction_version(target.app), table.metadata().configuration.get(FENCE)
    if fence != target.fence.token or (applied is not None and applied >= mark) or not exchangeable(table, new):
        raise WentOn(target.path)
    noted = CommitProperties(
        custom_metadata={"userMetadata": new.metadata},
        max_commit_retries=0,
        app_transactions=app_versions({target.app: mark}),
    )
    try:
        if mark > new.mark.at:
            marked = marked_property(table.metadata().configuration, new.mark)
            set_properties(table, marked, once)
        table.create_write_transaction(
            list(added), "overwrite", table.schema(), commit_properties=noted, post_commithook_properties=_QUIET
        )
    except CommitFailedError as error:
        raise WentOn(target.path) from error


def adoptable(staged: DeltaTable, new: Replacement) -> bool:
    """Whether the staged files can be the table's own: the columns are the same, and the files of an existing table can
    be exchanged."""
    there = [(field.name, delta_type(field.type)) for field in staged.schema().fields]
    if there != [(column.name, column.type) for column in new.columns]:
        return False
    if OWN in new.properties or (new.state is not None and OWN in new.state.properties):
        return False  # the files lack columns that the table has
    if LAYOUT in new.properties or (new.state is not None and LAYOUT in new.state.properties):
        return False  # the files are not laid out so, or the note of the old layout would stay
    return new.state is None or exchangeable(new.target.lake.open(new.target.path), new)


def adopt(staged: DeltaTable, path: str, files: Sequence[StagedFile], new: Replacement) -> None:
    """Makes the table of files in the staging table's folder at `path`. Raises LakeError if they cannot be copied,
    WentOn if another writer has made or written the table."""
    target = new.target
    # An existing table may have files of an earlier try, so its new files get their own names.
    names = [file.path if new.state is None else f"{uuid.uuid4().hex}.parquet" for file in files]
    added = [new_file(name, file.size, file.stats) for name, file in zip(names, files, strict=True)]
    try:
        _copy(target.lake, path, target.path, [file.path for file in files], names)
        if new.state is None:
            _create(staged, added, new)
        else:
            exchange(target.lake.open(target.path), added, new)
        _set_properties(new)
    except CommitFailedError as error:
        raise WentOn(target.path) from error
    except (DeltaError, OSError) as error:
        if new.state is None and target.lake.has(target.database, target.table):
            raise WentOn(target.path) from error
        hint = "Make the lake writable and give it room for one more copy of the table; then read the table again."
        raise LakeError(f"the rows cannot be copied: {first_line(error)}", place=target.path, hint=hint) from error


def _create(staged: DeltaTable, added: list[AddAction], new: Replacement) -> None:
    target, mark = new.target, app_versions({new.target.app: new.mark.upto})
    create_table_with_add_actions(
        target.path,
        _commented(staged, new),
        added,
        "error",
        description=new.schema.comment or None,
        storage_options=target.lake.storage or None,
        commit_properties=CommitProperties(custom_metadata={"userMetadata": new.metadata}, app_transactions=mark),
    )


def _set_properties(new: Replacement) -> None:
    """Sets Sluice's properties of the table."""
    old = new.state.properties if new.state else {}
    changed = {key: value for key, value in new.properties.items() if old.get(key) != value}
    set_properties(new.target.lake.open(new.target.path), changed)


def remove_copies(target: Target) -> None:
    """Removes the files that a switch copied before it was killed: Spark creates no table in a folder with files. Does
    nothing if there is a table by now, because the files may be the table's."""
    if target.lake.state(target.path, target.app) is not None:
        return
    with suppress(DeltaError, OSError):
        folder = PyFileSystem(DeltaStorageHandler(target.path, target.lake.storage or None))
        for one in folder.get_file_info(FileSelector("")):
            if one.type is FileType.File and _COPY.fullmatch(one.base_name):
                folder.delete_file(one.path)


def claim_own(target: Target) -> None:
    """Names the owner of a table that a killed switch left without one: its first commit is Sluice's, of this epoch or
    an earlier one, which the app id proves. The table is then replaced like any other table."""
    lake, client = target.lake, target.client
    state = lake.state(target.path, target.app)
    if state is None or DESTINATION in state.properties:
        return
    apps = [replace(client, epoch=epoch).app(target.name) for epoch in range(client.epoch + 1)]
    if any(applied is not None for applied in lake.applied(target.path, apps)):
        owner = {DESTINATION: client.destination, TABLE: target.name}
        set_properties(lake.open(target.path), owner)


def _copy(lake: Lake, source: str, into: str, names: Sequence[str], others: Sequence[str]) -> None:
    """Copies files `names` of one folder into another, as `others`. A local disk uses links if it has them, because
    they cost nothing."""
    pairs = list(zip(names, others, strict=True))
    old, new = local_folder(source), local_folder(into)
    if old and new:
        new.mkdir(parents=True, exist_ok=True)
        pairs = [(name, other) for name, other in pairs if not _linked(old / name, new / other)]
    here, there = (PyFileSystem(DeltaStorageHandler(path, lake.storage or None)) for path in (source, into))
    copy = partial(copy_files, source_filesystem=here, destination_filesystem=there, chunk_size=_CHUNK)
    with ThreadPoolExecutor(_COPIES) as pool:
        list(pool.map(copy, *zip(*pairs, strict=True)) if pairs else ())


def _linked(file: Path, into: Path) -> bool:
    """Links the file, and returns whether it could. A missing file was staged for a table that exists by now: the file
    at its place is that table's."""
    try:
        file.stat()
        into.unlink(missing_ok=True)
        into.hardlink_to(file)
    except OSError:
        return False
    return True


def _commented(staged: DeltaTable, new: Replacement) -> Schema:
    comments = [{"comment": column.comment} if column.comment else {} for column in new.columns]
    fields = zip(staged.schema().fields, comments, strict=True)
    return Schema([Field(field.name, field.type, metadata=comment) for field, comment in fields])
