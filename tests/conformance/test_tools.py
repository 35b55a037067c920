"""The tools that the official conformance suite calls are those of a provider like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.testing import check_provider
from tests.conformance.served import copied
from tests.conformance.tools import Diagnostics


@pytest.mark.anyio
async def test_the_provider_of_the_tools_keeps_the_contract(tmp_path: Path) -> None:
    await check_provider(Diagnostics(copied(tmp_path), 0))
