"""Storage services for tests: moto as a process, with buckets that each test has for itself."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from resource_server.providers.object_storage.provider import ObjectStorage
from tests.ports import free_port
from tests.waiting import block_until

ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "key-of-tests",
    "AWS_SECRET_ACCESS_KEY": "secret-of-tests",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_DEFAULT_REGION": "us-east-1",
}
_names = itertools.count()


class Storage:
    """A storage service that runs, and a client for it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        session = importlib.import_module("botocore.session").Session()
        session.set_credentials("key-of-tests", "secret-of-tests")
        config = importlib.import_module("botocore.config").Config(
            s3={"addressing_style": "path"}, max_pool_connections=16
        )
        self.client: Any = session.create_client(
            "s3", region_name="us-east-1", endpoint_url=endpoint, config=config
        )

    def bucket(self, objects: Mapping[str, bytes | str] | None = None) -> str:
        """Make a bucket with these objects, and return its name."""
        name = f"bucket-{os.getpid()}-{next(_names)}"
        self.client.create_bucket(Bucket=name)
        for key, data in (objects or {}).items():
            self.put(name, key, data)
        return name

    def put(self, bucket: str, key: str, data: bytes | str) -> None:
        """Write an object."""
        body = data.encode() if isinstance(data, str) else data
        self.client.put_object(Bucket=bucket, Key=key, Body=body)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object."""
        self.client.delete_object(Bucket=bucket, Key=key)

    def provider(self, bucket: str, prefix: str = "", **options: Any) -> ObjectStorage:
        """Return the provider of a bucket."""
        path = f"s3://{bucket}/{prefix}".removesuffix("/")
        return ObjectStorage(path=path, endpoint=self.endpoint, **options)


@contextmanager
def running(*numbers: int) -> Generator[Storage]:
    """Run moto on a free port of this machine, with so many objects in its large buckets."""
    port = free_port()
    command = [sys.executable, "-m", "tests.providers.object_storage.moto_process"]
    command += map(str, (port, *numbers))
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    )
    try:
        storage = Storage(f"http://127.0.0.1:{port}")

        def answers() -> bool:
            assert process.poll() is None, "moto has ended"
            try:
                storage.client.list_buckets()
            except Exception:
                return False
            return True

        block_until(answers)
        yield storage
    finally:
        process.kill()
        process.wait()
