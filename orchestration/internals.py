"""What Sluice uses of Dagster that is not public: nothing else imports a name below `dagster._`.

All of it was last seen to work with Dagster 1.13.27, the version of constraints.txt. Look here first when that changes.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.metadata.metadata_value import CodeLocationReconstructionMetadataValue
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._core.storage.tags import POOL_TAG_PREFIX, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, USER_TAG
from dagster._utils.schedules import is_valid_cron_schedule
from dagster.components.resolved.errors import ResolutionException

__all__ = [
    "POOL_TAG_PREFIX",
    "SCHEDULE_NAME_TAG",
    "SENSOR_NAME_TAG",
    "USER_TAG",
    "AssetCheckExecutionRecord",
    "ResolutionException",
    "is_valid_cron_schedule",
]


_made: list[tuple[Path, dg.Definitions]] = []


def noted() -> Mapping[str, Any]:
    """Return the metadata that the definitions had when the code location was loaded; empty while it is being loaded.
    `Definitions.with_reconstruction_metadata` is public, what reads it is not."""
    loading = DefinitionsLoadContext.get()
    if loading.load_type == DefinitionsLoadType.RECONSTRUCTION:
        return loading.reconstruction_metadata
    return {}


def once_a_load(folder: Path, make: Callable[[], dg.Definitions]) -> dg.Definitions:
    """Return what `make` returns, its metadata noted for the processes of runs: Dagster itself notes only what a load
    adds to its context. A code server loads twice when it starts; the second time it gets the same again."""
    if not DefinitionsLoadContext.is_set():
        return make()
    loading = DefinitionsLoadContext.get()
    if loading.load_type == DefinitionsLoadType.INITIALIZATION:
        found = make()
        _made[:] = [(folder, found)]
    else:
        before = _made.pop() if _made else None
        found = before[1] if before and before[0] == folder else make()
    for key, value in (found.metadata or {}).items():
        if isinstance(value, CodeLocationReconstructionMetadataValue):
            loading.add_to_pending_reconstruction_metadata(key, value.data)
    return found


def job_of_process() -> str:
    """Return the name of the job whose run this process executes, "" if it is not known.

    The code server starts a process with the job as an argument; launchers start `dagster api execute_run` (or
    `execute_step`) with the run's origin as JSON."""
    arguments = getattr(multiprocessing.current_process(), "_args", ())
    for argument in arguments:
        name = getattr(argument, "job_name", None)
        if isinstance(name, str):
            return name
    if "api" in sys.argv[:3]:
        found = re.search(r'"(?:job|pipeline)_name": ?"([^"\\]+)"', " ".join(sys.argv[1:]))
        return found[1] if found else ""
    return ""


def dagster_command(*arguments: str) -> None:
    """Run the command `dagster` with these arguments, and exit with its code."""
    from dagster._cli import cli

    cli(args=list(arguments), prog_name="dagster")


def fork_runs(preloaded: Sequence[str]) -> None:
    """Let a code server of this process fork the processes of its runs from one that has imported these modules. It
    imports them while the code server starts."""
    from dagster._grpc.server import DagsterApiServer

    forking: Any = multiprocessing.get_context("forkserver")
    made = DagsterApiServer.__init__

    def with_forks(self: DagsterApiServer, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        self._mp_ctx = forking

    setattr(DagsterApiServer, "__init__", with_forks)  # noqa: B010 - an assignment is an error for mypy
    forking.set_forkserver_preload(list(preloaded))
    multiprocessing.forkserver.ensure_running()


_kept: dict[str, dg.DagsterInstance] = {}


def kept_instance(context: dg.SensorEvaluationContext) -> dg.DagsterInstance:
    """Return the instance of the tick, made once for the process. Dagster makes one for each tick that asks for it, or
    has resources, which reads all its migrations: more than half of what a tick takes."""
    ref = context.instance_ref
    if ref is None:
        return context.instance
    key = repr(ref)
    if key not in _kept:
        _kept[key] = dg.DagsterInstance.from_ref(ref)
    return _kept[key]


def files_of_run(instance: dg.DagsterInstance, run_id: str) -> tuple[list[Path], list[Path]]:
    """Return the files and the folders that a deleted run leaves in the storages of a local Dagster."""
    storage, logs = instance.event_log_storage, instance.compute_log_manager
    files, folders = [], []
    if isinstance(storage, SqliteEventLogStorage):
        file = Path(storage.path_for_shard(run_id))
        files = [file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")]
    if isinstance(logs, LocalComputeLogManager):
        step = Path(logs.get_captured_local_path([run_id, "compute_logs", "step"], "out"))
        folders = [step.parent.parent]
    return files, folders


def delete_skipped_ticks(
    instance: dg.DagsterInstance, sensor: str, ours: Callable[[str], bool], before: float
) -> list[str]:
    """Delete the ticks before a time that started nothing, of the sensors of the code location that has this `sensor`.
    Return the names of the sensors that are `ours`. Dagster's own `retention` counts whole days."""
    if instance.schedule_storage is None:
        return []
    states = instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
    locations = {one.repository_selector_id for one in states if one.instigator_name == sensor}
    found = [one for one in states if one.repository_selector_id in locations and ours(one.instigator_name)]
    for one in found:
        instance.purge_ticks(one.instigator_origin_id, one.selector_id, before, [TickStatus.SKIPPED])
    return [one.instigator_name for one in found]
