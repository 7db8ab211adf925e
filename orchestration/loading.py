"""From a folder of destinations to Dagster's definitions: `{folder}/{name}/defs.yaml`, each on its own.

A file that cannot be read does not keep the others from loading. A sensor takes its place whose every tick fails with
file, key and remedy: that is where an operator looks. Of a destination whose tables are not known yet, its ticks are
skipped with the reason, and say when they are: Dagster does not reload a code location by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import dagster as dg
import yaml
from pydantic import ValidationError

from cdc_core.errors import ConfigError, SluiceError
from orchestration.destination import CdcDestination, in_a_file, one_load
from orchestration.failures import TablesUnknown
from orchestration.internals import ResolutionException, job_of_process, noted
from orchestration.names import UNION
from orchestration.resources import LakeResource
from orchestration.settings import Settings
from orchestration.stand_in import stand_in
from orchestration.trees import files_of, tree_of
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, unions_from

FOLDER_VARIABLE = "SLUICE_DEFS"
JOBS = "sluice/jobs"  # in the metadata of the code location: the digest and the jobs of each file, as JSON
SHIPPED = Path(__file__).parent / "defs"
Paths = dict[str, tuple[str, str]]
"""By a table's folder, whatever its case: its asset, and the folder itself."""
Unions = dict[tuple[str, str], Union]
"""The unions of the lakes, by the lake's root and the union's name in lower case."""
More = Callable[[dg.Definitions], dg.Definitions]
"""Returns the definitions with more."""
_TYPE = re.compile(r"(?<=\.)\w+\[.*\]\.?")  # in pydantic's path to a key
_REMEDY = "Correct the file, then reload this code location; orchestration/defs/example.yaml shows every key."


def defs_folder() -> Path:
    """The folder named by SLUICE_DEFS, else the one next to this file."""
    return Path(os.environ.get(FOLDER_VARIABLE) or SHIPPED).absolute()


def load_folder(folder: Path, more: More = lambda found: found) -> dg.Definitions:
    """Return the definitions of all destinations in a folder, and `more`. Raises ConfigError when there is no such
    folder."""
    if not folder.is_dir():
        raise ConfigError("no such folder of destinations", place=str(folder), hint=f"Correct {FOLDER_VARIABLE}.")
    return _load_all(files_of(folder), more)


def load_for_process(folder: Path, more: More) -> dg.Definitions:
    """Return the same, but in the process of a run only the destination whose job it runs. A job that is not known to
    be of one file, as that of assets which a person selected, has all destinations; so has a file that was changed
    since the code location was loaded: only with the others it shows what two would share."""
    job, jobs = job_of_process(), json.loads(noted().get(JOBS, "{}"))
    files = [(Path(file), digest) for file, (digest, names) in jobs.items() if job in names]
    if len(files) == 1 and files[0][0].parent.parent == folder and _digest(files[0][0]) == files[0][1]:
        return _load_all([files[0][0]], more)
    return load_folder(folder, more)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _load_all(files: Sequence[Path], more: More) -> dg.Definitions:
    """Validates all destinations at once, by what Dagster uses afterwards: a job of all assets, which takes seconds for
    thousands of tables. Only where Dagster takes them not, each is validated by itself, to find which it is."""
    with one_load(), warnings.catch_warnings():  # about parts of Dagster that are in beta or deprecated
        warnings.simplefilter("ignore")
        try:
            found = more(_each(files, alone=False))
            dg.Definitions.validate_loadable(found)
        except dg.DagsterError:
            return more(_each(files, alone=True))
        return found


def _each(files: Sequence[Path], *, alone: bool) -> dg.Definitions:
    """Return the destinations, which have nothing in common; with `alone` Dagster takes each by itself."""
    common = dg.Definitions(executor=dg.in_process_executor)
    parts, names, paths, jobs = [common], set[str](), dict[str, tuple[str, str]](), dict[str, tuple[str, list[str]]]()
    unions: Unions = {}
    keys = set[dg.AssetKey]()
    for file in files:
        read = _digest(file)
        try:
            one = load_destination(file)
            if alone:
                dg.Definitions.validate_loadable(dg.Definitions.merge(common, one))
            if shared := names & (one.resources or {}).keys():
                message = f"clashes with another destination: both would have {min(shared)}"
                raise ConfigError(message, place=str(file), hint=_REMEDY)
            own = {spec.key for spec in _specs(one)}
            if shared_key := min(keys & own, default=None):
                hint = "Let `key` in `translation` have {{ destination }} too, or correct one of the files."
                message = f"clashes with another destination: both would have the asset {shared_key.to_user_string()}"
                raise ConfigError(message, place=str(file), hint=hint)
            paths |= check_paths(one, str(file), paths)
            unions |= check_unions(one, str(file), unions)
        except ConfigError as error:
            parts.append(stand_in(file.parent.name, error, partial(load_destination, file)))
        except dg.DagsterError as error:
            wrong = ConfigError(f"cannot be loaded: {error}", place=str(file), hint=_REMEDY)
            parts.append(stand_in(file.parent.name, wrong, partial(load_destination, file)))
        else:
            names |= (one.resources or {}).keys()
            keys |= own
            jobs[str(file)] = read, [job.name for job in one.jobs or ()]
            parts.append(one)
    return dg.Definitions.merge(*parts).with_reconstruction_metadata({JOBS: json.dumps(jobs)})


def check_paths(definitions: dg.Definitions, place: str, others: Paths) -> Paths:
    """The folders of the Delta tables of a destination, with those of the `others`. Raises ConfigError for two tables
    of one folder: of two destinations that share a lake, or of names that differ only in case where the lake's store
    ignores it."""
    own: Paths = {}
    for spec in _specs(definitions):
        if spec.metadata.get("dagster/storage_kind") != "delta":
            continue
        table, path = spec.metadata.get(UNION) or spec.key.to_user_string(), str(spec.metadata["path"].value)
        other, there = others.get(path.casefold()) or own.setdefault(path.casefold(), (table, path))
        if other != table and (there == path or Lake(path.rsplit("/", 2)[0]).ignores_case()):
            hint = "Leave one out (canal.instance.filter.black.regex, or `tables` in defs.yaml), or use two lakes."
            raise ConfigError(f"{other} and {table} would share a folder of the lake: {path}", place=place, hint=hint)
    return own


def check_unions(definitions: dg.Definitions, place: str, others: Unions) -> Unions:
    """The unions of a destination's lake. Raises ConfigError for one that is another destination's too, if its columns
    are not the same ones, or none of them says which destination a row is of."""
    own: Unions = {}
    for lake in (definitions.resources or {}).values():
        if not isinstance(lake, LakeResource):
            continue
        for union in unions_from(lake.unions).all:
            key = lake.root.rstrip("/"), union.table.lower()
            own[key] = union
            other = others.get(key, union)
            if other.columns != union.columns or other.destination != union.destination:
                what = f"{' and '.join(map(repr, (other.partitions, union.partitions)))} are its columns"
            elif key in others and not union.destination:
                what = "none of its columns says which destination a row is of"
            else:
                continue
            hint = "Give it the same `columns` and `destination` in both files, or use two lakes."
            raise ConfigError(f"two destinations go into {union.table}, and {what}", place=place, hint=hint)
    return own


def _specs(definitions: dg.Definitions) -> Iterable[dg.AssetSpec]:
    for asset in definitions.assets or ():
        if isinstance(asset, dg.AssetsDefinition):
            yield from asset.specs
        elif isinstance(asset, dg.AssetSpec):
            yield asset


def load_destination(file: Path) -> dg.Definitions:
    """One file's definitions. Raises ConfigError with file, line and key."""
    try:
        with in_a_file():
            return tree_of(file).build_defs(file.parent)
    except Exception as error:
        raise _as_config_error(file, error) from error


def load_settings(defs: Path, destination: str, client_id: int) -> Settings:
    """What a `defs.yaml`, or one of a folder's, declares for a client of a destination. No service is asked. Raises
    ConfigError."""
    files = [defs] if defs.is_file() and defs.stem == "defs" else files_of(defs)
    broken: ConfigError | None = None
    for file in files:
        try:
            found = tree_of(file).get_all_components(CdcDestination)
        except Exception as error:
            broken = broken or _as_config_error(file, error)
            continue
        for one in found:
            if (one.destination, one.client_id) == (destination, client_id):
                return one
    if broken:
        raise broken
    hint = "Give --defs a defs.yaml, or a folder of */defs.yaml, that has it."
    raise ConfigError(f"no defs.yaml has client {client_id} of destination {destination}", place=str(defs), hint=hint)


def _as_config_error(file: Path, error: BaseException) -> ConfigError:
    """The cause that names a key. Dagster wraps it in a drawing of the component tree."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, SluiceError):
            place = f"{file} ({cause.place})" if cause.place else str(file)
            kind = TablesUnknown if isinstance(cause, TablesUnknown) else ConfigError
            return kind(cause.message, place=place, hint=cause.hint)
        if isinstance(cause, ValidationError):
            return _invalid(file, cause)
        if isinstance(cause, yaml.MarkedYAMLError):
            line = f":{cause.problem_mark.line + 1}" if cause.problem_mark else ""
            return ConfigError(f"not YAML: {cause.problem}", place=f"{file}{line}", hint=_REMEDY)
        if isinstance(cause, ResolutionException):
            return _unresolved(str(cause))
    return ConfigError(f"cannot be loaded: {causes[-1]}", place=str(file), hint=_REMEDY)


def _invalid(file: Path, error: ValidationError) -> ConfigError:
    """All wrong keys at once. Each value may also be a template, so Pydantic's "or a string" is left out."""
    wrong: dict[str, str] = {}
    for found in error.errors():
        place = ".".join(str(part) for part in found["loc"]).partition(" at ")[0].removeprefix("attributes.")
        path = _TYPE.sub("", place).split(".")
        if path[-1] != "str":
            wrong[".".join(key for key in path if not _is_type(key))] = found["msg"].removeprefix("Value error, ")
    first = next(iter(wrong))
    place = f"{file}:{_line(file, ['attributes', *first.split('.')])}"
    return ConfigError("; ".join(f"{key}: {message}" for key, message in wrong.items()), place=place, hint=_REMEDY)


def _is_type(part: str) -> bool:
    """Whether a part of pydantic's path names a member of a union, not a key."""
    return bool(re.fullmatch(r"[A-Z]\w*Model|(int|float|bool|str|list|dict|literal)(\[.*)?", part))


def _line(file: Path, keys: Sequence[str]) -> int:
    """The line of the deepest of `keys`, each nested in the one before, that the file has."""
    node, line = yaml.compose(file.read_text()), 1
    for key in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = next(((name, value) for name, value in pairs if name.value == key), None)
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _unresolved(text: str) -> ConfigError:
    """A template that cannot be resolved, or a wrong value in a nested key. Dagster gives text, its place first."""
    place, _, key = text.splitlines()[0].partition(" - ")
    inner = re.search(r"validation errors? for \w+\n(?:(\S+)\n)?\s+(.+?) \[type=", text)  # a model's has no key
    last = text.strip().splitlines()[-1]
    if "'model_dump'" in last:  # a plain value where Dagster expects a mapping
        last = "is not of the form that it has there"
    named = f"{key}.{inner[1]}" if inner and inner[1] else key
    message = f"{named}: {inner[2] if inner else last}"
    return ConfigError(message.removeprefix("attributes.").replace("Value error, ", ""), place=place, hint=_REMEDY)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
