"""moto with a bucket of many objects, which would take minutes to write one by one.

`python -m tests.providers.object_storage.moto_process PORT` serves; the bucket `many` has 20,000
objects in one collection and 20,000 in collections of ten.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

MANY, DEEP = 3_000, 3_000


def main(port: str, many: int = MANY, deep: int = DEEP) -> None:
    """Fill the bucket and serve."""
    backends: Any = importlib.import_module("moto.s3.models").s3_backends
    backend = backends[importlib.import_module("moto.core").DEFAULT_ACCOUNT_ID]["aws"]
    backend.create_bucket("many", "us-east-1")
    for number in range(many):
        backend.put_object("many", f"{number:05}.txt", b"x")
    backend.create_bucket("deep", "us-east-1")
    for number in range(deep):
        backend.put_object("deep", f"{number // 10:04}/{number:05}.txt", b"x")
    importlib.import_module("moto.server").main(["-H", "127.0.0.1", "-p", port])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
