from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest

from resource_server import provider
from resource_server.provider import core
from resource_server.testing import check_provider


def test_the_contract_imports_without_pydantic() -> None:
    script = "import sys, resource_server.provider; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.anyio
async def test_the_example_of_the_contract_keeps_the_contract() -> None:
    assert core.__doc__
    found = re.search(r"^    @dataclass\n(?:(?:    .*)?\n)+", core.__doc__, re.MULTILINE)
    assert found
    names: dict[str, Any] = {**vars(provider), "dataclass": dataclass, "__name__": __name__}
    exec(textwrap.dedent(found[0]), names)  # noqa: S102
    await check_provider(names["Greetings"](names=("alan", "ada")))
