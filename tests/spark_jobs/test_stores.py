"""Configurations in which two writers would lose each other's commits are refused: pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.errors import LakeError
from spark_jobs.stores import check_root, check_spark, local_folder

CREATE = {"spark.hadoop.fs.s3a.performance.flags": "create"}
S3_LOCKS, GCS = "io.delta.storage.S3DynamoDBLogStore", "io.delta.storage.GCSLogStore"


@pytest.mark.parametrize(
    "root", ["/data/lake", "file:///data/lake", "s3a://b/l", "gs://b/l", "abfss://c@a/l", "hdfs://n/l"]
)
def test_a_store_that_decides_itself_is_taken(root: str) -> None:
    """With the options that delta-rs has anyway."""
    check_root(root, {"AWS_REGION": "eu-west-1", "aws_conditional_put": "etag", "AWS_S3_ALLOW_UNSAFE_RENAME": "false"})
    check_spark(root, lambda key, default: CREATE.get(key, default))


@pytest.mark.parametrize(
    ("root", "options", "why"),
    [
        ("oss://b/l", {}, "it is unknown"),
        ("s3n://b/l", {}, "it is unknown"),
        ("s3a://b/l", {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, "AWS_S3_LOCKING_PROVIDER"),
        ("s3a://b/l", {"conditional_put": "disabled"}, "conditional PUTs"),
        ("s3://b/l", {"aws_s3_allow_unsafe_rename": "true"}, "ALLOW_UNSAFE_RENAME"),
    ],
)
def test_options_of_delta_rs_that_lose_commits(root: str, options: dict[str, str], why: str) -> None:
    """Each is refused with the option's name and a remedy."""
    with pytest.raises(LakeError, match=why) as refused:
        check_root(root, options)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("root", "settings", "why"),
    [
        ("s3a://b/l", {}, "conditional PUTs"),
        ("s3a://b/l", CREATE | {"spark.hadoop.fs.s3a.create.conditional.enabled": "false"}, "conditional PUTs"),
        ("s3a://b/l", CREATE | {"spark.delta.logStore.s3a.impl": S3_LOCKS}, "S3DynamoDBLogStore"),
        ("s3a://b/l", CREATE | {"spark.delta.logStore.class": S3_LOCKS}, "S3DynamoDBLogStore"),
        ("s3://b/l", CREATE, "no S3A file system"),
        ("abfss://c@a/l", {"spark.delta.logStore.abfss.impl": GCS}, "GCSLogStore"),
    ],
)
def test_settings_of_spark_that_lose_commits(root: str, settings: dict[str, str], why: str) -> None:
    """Each is refused with the setting's name and a remedy."""
    with pytest.raises(LakeError, match=why) as refused:
        check_spark(root, lambda key, default: settings.get(key, default))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/data/my lake", "/data/my lake"),
        ("/data/50%", "/data/50%"),
        ("lake", "lake"),
        ("file:///data/my%20lake", "/data/my lake"),
        ("file:///data/my lake/t", "/data/my lake/t"),
        ("FILE:///data", "/data"),
        ("s3a://bucket/data", None),
    ],
)
def test_the_local_folder_of_a_path(path: str, folder: str | None) -> None:
    """A URI has its blanks as delta-rs writes them; a path is taken as it is."""
    assert local_folder(path) == (folder and Path(folder))
