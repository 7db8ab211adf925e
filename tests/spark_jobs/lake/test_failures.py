"""spark_jobs.lake.failures: which of Spark's errors are a table's own, and which may pass."""

from __future__ import annotations

import errno

import pytest
from pyspark.errors import PySparkException, PySparkValueError
from pyspark.errors.exceptions.connect import AnalysisException, SparkException

from cdc_core.errors import DecodeError, LakeError, TableStopped
from spark_jobs.lake.failures import SparkRefusal, first_line, lake_errors, raised_by_task, store_failed

WRAPPED = "[TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030\nCaused by: {}"


@pytest.mark.parametrize(
    "error",
    [
        AnalysisException("no such column", errorClass="UNRESOLVED_COLUMN", sql_state="42703"),
        SparkException("[DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE] no", sql_state="21506"),
        SparkException(WRAPPED.format("[CAST_OVERFLOW] too large SQLSTATE: 22003"), sql_state="58030"),
        SparkException("[INTERNAL_ERROR] a bug", errorClass="INTERNAL_ERROR", sql_state="XX000"),
        PySparkValueError(errorClass="UNSUPPORTED_DATA_TYPE_FOR_ARROW", messageParameters={"data_type": "x"}),
    ],
)
def test_an_error_that_comes_again_is_the_tables_own(error: PySparkException) -> None:
    """The table is refused, with the remedy; where no remedy is known, the run fails."""
    with pytest.raises(SparkRefusal, match="Copy it"), lake_errors("/lake/t", "Copy it."):
        raise error
    with pytest.raises(LakeError) as caught, lake_errors("/lake/t"):
        raise error
    assert not isinstance(caught.value, SparkRefusal)


def test_an_error_of_the_service_in_a_worker_keeps_its_class() -> None:
    """What stops a table there stops it here; a value that is refused fails the run."""
    text = "Traceback\ncdc_core.errors.TableStopped: a zero date in the key at bin.000001:4. Correct it."
    with pytest.raises(TableStopped, match="a zero date in the key") as caught, lake_errors("/lake/t", "Copy it."):
        raise SparkException(text)
    assert caught.value.hint == "Copy it."
    with pytest.raises(DecodeError), lake_errors("/lake/t", "Copy it."):
        raise SparkException("cdc_core.errors.DecodeError: damaged")


@pytest.mark.parametrize(
    "text",
    [
        WRAPPED.format("java.io.IOException: No space left on device, [X] SQLSTATE: 22003"),
        "Permission denied [X] SQLSTATE: 42501",
        "[DELTA_CONCURRENT_TRANSACTION] another writer SQLSTATE: 2D521",
        "[FAILED_READ_FILE.FILE_NOT_EXIST] gone SQLSTATE: KD001",
        "java.lang.OutOfMemoryError: Java heap space",
        "something that nobody knows",
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'spark_jobs' [X] SQLSTATE: 42501",
    ],
)
def test_an_error_that_may_pass_fails_the_run(text: str) -> None:
    """The environment's errors, and unknown ones, stop no table."""
    with pytest.raises(LakeError) as caught, lake_errors("/lake/t", "Copy it."):
        raise SparkException(text)
    assert not isinstance(caught.value, SparkRefusal)


def test_what_a_task_raised_is_named() -> None:
    """And not where it was raised, nor what its worker made of it."""
    text = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "/worker.py", line 1, in main\n'
        "    import deltalake\n"
        "ModuleNotFoundError: No module named 'deltalake'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/worker.py", line 2, in main\n'
        "SerializationError: Caused by it\n"
    )
    assert raised_by_task(SparkException(text)) == "ModuleNotFoundError: No module named 'deltalake'"
    assert raised_by_task(SparkException("[OTHER] it\nis away")) == "[OTHER] it"


def test_the_causes_below_an_error_of_a_store_are_told() -> None:
    """Its first line names the store alone; colours are for terminals."""
    text = (
        "Generic S3 error\n          \x1b[31m↳\x1b[0m Error performing GET http://s/b/t in 5ms - "
        "Server returned non-2xx status code\n           \x1b[31m↳\x1b[0m 503 Service Unavailable\n\nmore"
    )
    told = "Generic S3 error: Error performing GET http://s/b/t in 5ms - Server returned non-2xx status code: "
    assert first_line(OSError(text)) == f"{told}503 Service Unavailable"
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    "text",
    [
        "ModuleNotFoundError: No module named 'spark_jobs'",
        "cdc_core.errors.ServiceUnavailable: no answer at grpc://s:1",
    ],
)
def test_what_a_worker_lacks_is_looked_for_by_a_command(text: str) -> None:
    """The error names it, and the hint the command."""
    with pytest.raises(LakeError, match=text.partition(" ")[2]) as caught, lake_errors("/lake/t", "Copy it."):
        raise SparkException(f"Traceback (most recent call last):\n{text}")
    assert "sluice check" in caught.value.hint


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (OSError(errno.EIO, "Input/output error"), True),
        (PermissionError(errno.EACCES, "Permission denied"), True),
        (TimeoutError(errno.ETIMEDOUT, "timed out"), True),
        (OSError("Generic S3 error: 503 Service Unavailable"), True),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), False),
        (OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"), False),
        (ValueError("Parquet magic bytes not found in footer"), False),
    ],
)
def test_a_store_that_fails_is_told_from_damage(error: Exception, *, failed: bool) -> None:
    """A system's error may pass; a file that is gone, or that Arrow cannot decode, is damage."""
    assert store_failed(error) is failed
