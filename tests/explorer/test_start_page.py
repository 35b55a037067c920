"""The start page: what is served, and for operators what `check` warns of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_check import NUMBERS
from tests.explorer.shop import fetched, make_shop, text_of
from tests.transports.http.auth.test_page_sign_in import BOSS, CLERK, cookie, sign_in
from tests.transports.program import Program, running
from tests.waiting import block_until

WARNINGS = """
    async def warnings(self, *, thorough):
        import asyncio
        if self.count == 7:
            raise KeyError
        if self.count == 8:
            await asyncio.Event().wait()
        return [("", "the login may write\\u202e"), ("count", "no such number")]
"""
PROVIDERS = """
providers:
  told: {use: numbers.py}
  failing: {use: numbers.py, count: 7}
  slow: {use: numbers.py, count: 8}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The shop with three providers that have warnings, or should have."""
    (tmp_path / "numbers.py").write_text(NUMBERS + WARNINGS, encoding="utf-8")
    file = make_shop(tmp_path)
    file.write_text(file.read_text("utf-8") + PROVIDERS, encoding="utf-8")
    return file


def warnings(program: Program, **headers: str) -> str:
    """Return the text of the start page, once all but the slow provider have been asked."""
    texts: list[str] = []

    def is_known() -> bool:
        texts.append(text_of(fetched(program, "/", **headers)))
        return texts[-1].count("still being looked at") <= texts[-1].count("slow: still")

    block_until(is_known)
    return texts[-1]


def test_an_operator_sees_warnings_on_the_start_page(manifest: Path) -> None:
    with running(manifest) as program:
        text = warnings(program)
        for warning in (
            "told: the login may write⟨U+202E⟩ told: count: no such number",
            "failing: its warnings cannot be determined",
            "slow: still being looked at",
        ):
            assert warning in text
        through_a_proxy = fetched(program, "/", via="proxy")
        assert through_a_proxy.status == 200
        assert "the login may write" not in text_of(through_a_proxy)


def test_the_providers_are_not_asked_again_for_each_page(manifest: Path) -> None:
    plugin = manifest.parent / "numbers.py"
    asked = manifest.parent / "asked"
    noted = f"import asyncio\n        open({str(asked)!r}, 'a').write('x' * thorough)"
    code = (NUMBERS + WARNINGS).replace("import asyncio\n        if", f"{noted}\n        if")
    plugin.write_text(code, encoding="utf-8")
    with running(manifest) as program:
        for _ in range(3):
            warnings(program)
        assert asked.read_text("utf-8") == 3 * "x"


def test_with_tokens_only_operators_see_warnings(manifest: Path) -> None:
    tokens = f"[{{token: {CLERK}}}, {{token: {BOSS}, scopes: [explorer.operator]}}]"
    auth = f"http: {{auth: {{tokens: {tokens}}}}}\n"
    manifest.write_text(manifest.read_text("utf-8") + auth, encoding="utf-8")
    with running(manifest) as program:
        clerk, boss = (cookie(sign_in(program, token)) for token in (CLERK, BOSS))
        assert "the login may write" in warnings(program, cookie=boss)
        assert "Warnings" not in warnings(program, cookie=clerk)


def test_without_warnings_there_is_no_heading_for_them(tmp_path: Path) -> None:
    file = make_shop(tmp_path)
    text = file.read_text("utf-8").replace("title: Tea shop", f"title: Tea shop, key: {'k' * 40}")
    file.write_text(text, encoding="utf-8")
    with running(file) as program:
        text = warnings(program)
    assert "Connect a host" in text
    assert "Warnings" not in text
