"""Translates Spark's errors into Sluice's.

An error that a table's data or definition causes comes again with every try. Spark marks it by the class of its
SQLSTATE (https://spark.apache.org/docs/latest/sql-error-conditions-sqlstates.html). Every other error may pass: Spark
is down, the disk is full, another writer was faster.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkException,
    PySparkTypeError,
    PySparkValueError,
)

from cdc_core.errors import DecodeError, LakeError, RangeGone, SchemaError, ServiceUnavailable, TableStopped
from spark_jobs.lake.layout import LAYOUT, REMEDY
from spark_jobs.session import is_gone

_NO_SPACE = ("No space left", "Disk quota exceeded")
_DENIED = (
    "Permission denied",
    "Read-only file system",
    "Mkdirs failed",
    "Not a directory",
    "AccessDenied",
    "403 Forbidden",
)
_MISSING = re.compile(r"ModuleNotFoundError: [^\n]*")
_OF_WORKERS = ("ModuleNotFoundError", ServiceUnavailable.__name__)
_OURS = re.compile(r"cdc_core\.[\w.]*?(\w+): ([^\n]*)")  # in a Spark worker's traceback: our error's class, its text
_FROM_SERVICE = {cls.__name__: cls for cls in (DecodeError, SchemaError, TableStopped)}
_SHOWN = "The batch stays claimable; the service's page shows the same error."
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_OF_TABLE = (
    "0A",
    "21",
    "22",
    "23",
    "42",
    "54",
    "P0",
)  # unsupported, cardinality, data, constraint, name, limit, raised
_PASSING = (
    *("OutOfMemoryError", "Too many open files", "SparkContext was shut down", "ExecutorLost", "CANCELED"),
    *("Connection refused", "Connection reset", "UnknownHostException", "SocketTimeout", "NOT_FOUND", "NOT_EXIST"),
    "ModuleNotFoundError",
)
# as delta-rs' object_store says it; "Object at location ... not found" is a file that is gone
_STORE_FAILED = re.compile(r"Generic (?!DeltaTable)\w+ error\b|The operation lacked ")
_COLOUR, _CAUSE = re.compile(r"\x1b\[\d*m"), "↳"  # in a text of delta-rs
_OF_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
_TOO_SHORT = ("Requested range was invalid", "416 Range Not Satisfiable")

_Given = TypeVar("_Given")


class SparkRefusal(TableStopped):
    """Spark says that it cannot apply a table's changes. Only the second such error counts."""


def tried_twice(work: Callable[[], _Given]) -> _Given:
    """Returns the work's result; if Spark refuses it, the work is done once more, in another session. Raises what the
    work raises."""
    try:
        return work()
    except SparkRefusal:
        return work()


@contextmanager
def lake_errors(place: str, remedy: str = "") -> Iterator[None]:
    """Turns an error of Spark into a LakeError at `place`, or into the service's own error that caused it. With a
    `remedy`, an error that the table at `place` causes is a SparkRefusal.

    An error that says the Spark server is down passes: `Sessions` knows that server's address.
    """
    try:
        yield
    except PySparkException as error:
        if is_gone(error):
            raise
        text = "\n".join(line for line in str(error).splitlines() if not line.startswith("\tat "))
        ours = _OURS.search(text)
        if ours and ours[1] == RangeGone.__name__:
            hint = "No action needed: the run claims again, and the service hands the range out from the last ack."
            raise RangeGone("the claim was rolled back while Spark read it", place=place, hint=hint) from error
        if ours and ours[1] in _FROM_SERVICE:
            hint = remedy if ours[1] == TableStopped.__name__ and remedy else _SHOWN
            raise _FROM_SERVICE[ours[1]](ours[2][:500].rstrip(". "), place=place, hint=hint) from error
        named = ours or _MISSING.search(text)
        words = named[0][:500] if named else first_line(error)
        if remedy and not ours and _is_of_table(error, text):
            hint = f"The Spark server's log has the whole error. {remedy}"
            raise SparkRefusal(f"Spark cannot apply its changes: {words}", place=place, hint=hint) from error
        raise LakeError(f"Spark failed: {words}", place=place, hint=_hint(text)) from error


@contextmanager
def layout_errors(path: str, properties: Mapping[str, str]) -> Iterator[None]:
    """Turns Spark's refusal to make the table at `path`, with these properties, into a TableStopped if defs.yaml says
    how it is laid out."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException) as error:
        if LAYOUT not in properties or is_gone(error):
            raise
        raise TableStopped(f"Delta refuses its layout: {first_line(error)}", place=path, hint=REMEDY) from error


def _is_of_table(error: PySparkException, text: str) -> bool:
    if any(word in text for word in (*_NO_SPACE, *_DENIED, *_PASSING)):
        return False
    if isinstance(error, PySparkTypeError | PySparkValueError):  # rows that do not fit into a data frame
        return True
    states = [error.getSqlState() or "", *_STATE.findall(text)]
    return any(state.startswith(_OF_TABLE) for state in states) or error.getCondition() == "INTERNAL_ERROR"


def raised_by_task(error: BaseException) -> str:
    """Returns what a Python worker of Spark raised first, of at most 500 characters; else the error's first line."""
    _, _, traceback = str(error).partition("Traceback (most recent call last):\n")
    raised = [line for line in traceback.splitlines() if line and not line[0].isspace()]
    return raised[0][:500] if raised else first_line(error)


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not empty, of at most 500 characters; with the causes that delta-rs
    writes below it, each after an arrow."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    causes = [line.removeprefix(_CAUSE).strip() for line in lines[1:] if line.startswith(_CAUSE)]
    return ": ".join([*(lines or [type(error).__name__])[:1], *causes])[:500]


def store_failed(error: BaseException) -> bool:
    """Whether the store of a file failed: by the number of the system's error, or by the text of delta-rs, which has no
    class for it. That says nothing of the file, and may pass. A file that is gone or cannot be decoded, for which
    Arrow has an OSError without a number, is damage."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno not in _OF_FILE
    text = str(error)
    return _STORE_FAILED.search(text) is not None and not any(one in text for one in _TOO_SHORT)


def _hint(text: str) -> str:
    if any(word in text for word in _NO_SPACE):
        return "The disk is full: make room in the lake and in Spark's scratch directory; the batch stays claimable."
    if any(word in text for word in _DENIED):
        return "Make the lake writable for the account that runs Spark; the batch stays claimable."
    if any(word in text for word in _OF_WORKERS):
        return "A Python worker of Spark lacks something: sluice check says which and what; the batch stays claimable."
    return "Read the whole error in the Spark server's log; the batch stays claimable."
