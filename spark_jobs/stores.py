"""Which stores keep the commits of two writers apart, and what each writer needs for that.

A commit of Delta is a file with the next number, and whoever creates it has made the commit. delta-rs and Spark both
write the tables of a lake, so both must create such a file only where there is none, and the store itself must decide:
a lock that one of them does not know is no lock. A configuration in which a commit could replace another one is refused
before anything is written. Whether a store keeps its promise is tried by `lake.probe`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cdc_core.errors import LakeError

_S3 = ("s3a", "s3")
_KNOWN = ("file", *_S3, "gs", "abfss", "abfs", "hdfs")
_LOG_STORES = {
    "s3a": "io.delta.storage.S3SingleDriverLogStore",
    "s3": "io.delta.storage.S3SingleDriverLogStore",
    "gs": "io.delta.storage.GCSLogStore",
    "abfss": "io.delta.storage.AzureLogStore",
    "abfs": "io.delta.storage.AzureLogStore",
    "hdfs": "io.delta.storage.HDFSLogStore",
}  # those that Delta takes by itself, and that leave the decision to the store
_FLAGS, _CONDITIONAL = "spark.hadoop.fs.s3a.performance.flags", "spark.hadoop.fs.s3a.create.conditional.enabled"
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_TRUE = ("1", "true", "t", "yes", "y", "on")


def scheme_of(root: str) -> str:
    """`file` for a path."""
    return root.partition("://")[0].lower() if "://" in root else "file"


def local_folder(path: str) -> Path | None:
    """Returns the folder of a path or a `file://` URI, in which delta-rs takes `%20` for a blank; None in another
    store."""
    if "://" not in path:
        return Path(path)
    return Path(unquote(urlsplit(path).path)) if scheme_of(path) == "file" else None


def location(path: str) -> str:
    """Returns a path as Spark and its catalogs keep it: one of a local file system is absolute, and has no `.`, no `..`
    and no scheme."""
    if scheme_of(path) != "file":
        return path
    return "/" + os.path.abspath(path.removeprefix("file://")).lstrip("/")  # noqa: PTH100 - Spark follows no links


def check_root(root: str, options: Mapping[str, str]) -> None:
    """`options`: delta-rs' storage options, with the environment that it reads too. Raises LakeError."""
    scheme, given = scheme_of(root), {key.upper(): value.strip().lower() for key, value in options.items()}
    if scheme not in _KNOWN:
        hint = f"Name a path, or a URI of one of these: {', '.join(f'{one}://' for one in _KNOWN)}."
        raise LakeError("it is unknown whether this store keeps two writers apart", place=root, hint=hint)
    if scheme not in _S3:
        return
    if given.get("AWS_S3_LOCKING_PROVIDER"):
        raise _refused(
            root,
            "AWS_S3_LOCKING_PROVIDER names a table of locks, which delta-rs no longer supports",
            "Unset it: delta-rs creates commits by conditional PUTs, and Spark must too.",
        )
    if any(given.get(key, "etag") != "etag" for key in ("AWS_CONDITIONAL_PUT", "CONDITIONAL_PUT")):
        raise _refused(
            root, "delta-rs is configured not to create commits by conditional PUTs", "Unset AWS_CONDITIONAL_PUT."
        )
    if any(given.get(key) in _TRUE for key in ("AWS_S3_ALLOW_UNSAFE_RENAME", "ALLOW_UNSAFE_RENAME")):
        raise _refused(root, "AWS_S3_ALLOW_UNSAFE_RENAME lets commits replace others", "Unset it.")


def flush(root: str) -> None:
    """Puts all that was written to the file system of a local root on its disk; other stores do so by themselves.
    Neither Spark nor delta-rs does. Raises LakeError."""
    path = local_folder(root)
    if path is None:
        return
    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:  # not Linux
        os.sync()
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        if sync(folder):
            why = os.strerror(ctypes.get_errno())
            hint = "Check the lake's disk. The batch stays claimable; claimed again it adds nothing."
            raise LakeError(f"what was written is not on the disk: {why}", place=str(path), hint=hint)
    finally:
        os.close(folder)


def check_spark(root: str, setting: Callable[[str, str], str]) -> None:
    """`setting` gives the server's setting of that name, or a default. Raises LakeError."""
    scheme = scheme_of(root)
    if scheme not in _LOG_STORES:
        return
    for key in (f"spark.delta.logStore.{scheme}.impl", "spark.delta.logStore.class"):
        found = setting(key, "")
        if found not in ("", _LOG_STORES[scheme]):
            raise _refused(
                root,
                f"Spark writes commits by {found}, which delta-rs does not know of",
                f"Start Spark without {key}: Delta's own log store of {scheme}:// leaves it to the store.",
            )
    if scheme not in _S3:
        return
    if scheme == "s3" and setting("spark.hadoop.fs.s3.impl", "") != _S3A:
        raise _refused(root, "Spark has no S3A file system for s3://", "Name the lake s3a://...")
    flags = {flag.strip().lower() for flag in setting(_FLAGS, "").split(",")}
    if not flags & {"create", "*"} or setting(_CONDITIONAL, "true").lower() != "true":
        raise _refused(
            root,
            "Spark does not create commits by conditional PUTs",
            f"Start it with --conf {_FLAGS}=create, without {_CONDITIONAL}=false, and hadoop-aws 3.4.2 or later.",
        )


def _refused(root: str, why: str, hint: str) -> LakeError:
    return LakeError(f"two writers would lose each other's commits: {why}", place=root, hint=hint)
