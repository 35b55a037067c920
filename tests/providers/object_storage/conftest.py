from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.providers.object_storage.storage import ENVIRONMENT, Storage, running


@pytest.fixture(scope="session")
def moto() -> Generator[Storage]:
    with running() as storage:
        yield storage


@pytest.fixture
def storage(moto: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A running service, with credentials for it in the environment."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    return moto
