"""An S3 server on the loopback address, in a process of its own, and the environment by which delta-rs finds it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import boto3

from orchestration.stack.ports import free_port, listening
from orchestration.stack.process import Process

BUCKET, _KEY, _SECRET, _REGION = "lake", "key", "secret", "us-east-1"


class ObjectStore(Process):
    """Moto: it takes conditional PUTs as S3 does. Its bucket is there when it is ready."""

    def __init__(self, directory: Path) -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        super().__init__("the S3 server", command, log=directory / "s3.log", ready=self._has_bucket, timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": _REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def _has_bucket(self) -> bool:
        if not listening(self._port):
            return False
        keys = {"aws_access_key_id": _KEY, "aws_secret_access_key": _SECRET, "region_name": _REGION}
        boto3.client("s3", endpoint_url=self.url, **keys).create_bucket(Bucket=BUCKET)
        return True


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Within the block this process has these variables."""
    with mock.patch.dict(os.environ, variables):
        yield
