"""What is hidden and why: for operators, and for nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explorer.shop import Elements, fetched, make_shop, opened, text_of
from tests.transports.http.auth.test_page_sign_in import BOSS, CLERK, cookie, sign_in
from tests.transports.program import Program, running

pytestmark = pytest.mark.guarantee("pages-show-what-clients-get")


def test_an_operator_is_told_the_rule_of_each_hidden_path(program: Program) -> None:
    text = text_of(opened(program, "file:///project", "hidden/"))
    assert "secret.txt" in text
    assert "secret*" in text
    assert "secrets" in text_of(opened(program, "sqlite://shop", "hidden/"))


def test_a_page_that_is_not_there_leads_to_the_reason(program: Program) -> None:
    page = opened(program, "file:///project/secret.txt")
    assert "hidden/file:%2F%2F/project/secret.txt" in page.body.decode()
    assert "secret*" in text_of(opened(program, "file:///project/secret.txt", "hidden/"))


def test_a_caller_through_a_proxy_is_no_operator(program: Program) -> None:
    for header in ("x_forwarded_for", "forwarded", "via"):
        answer = opened(program, "file:///project", "hidden/", **{header: "192.0.2.7"})
        assert answer.status == 404
        assert "secret" not in text_of(answer)


def test_with_tokens_the_scope_makes_an_operator(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    tokens = f"[{{token: {CLERK}}}, {{token: {BOSS}, scopes: [explorer.operator]}}]"
    http = f"http: {{auth: {{tokens: {tokens}}}}}\n"
    manifest.write_text(manifest.read_text("utf-8") + http, encoding="utf-8")
    with running(manifest) as program:
        clerk, boss = (cookie(sign_in(program, token)) for token in (CLERK, BOSS))
        page = "/explore/hidden/file:%2F%2F/project"
        assert fetched(program, page, cookie=clerk).status == 404
        assert "secret.txt" in text_of(fetched(program, page, cookie=boss))


def test_below_something_hidden_everything_is(program: Program) -> None:
    text = text_of(opened(program, "file:///project/secret.txt/below", "hidden/"))
    assert "everything below it is hidden" in text


def test_the_way_to_what_is_hidden_has_links_to_what_is_there_only(program: Program) -> None:
    for kind in ("hidden/", "model/"):
        for uri in ("file:///project/secret.txt/below", "file:///project/docs/none", "file:///no"):
            page = opened(program, uri, kind)
            links = [each for each in Elements(page).links() if each.startswith("/explore/file:")]
            assert {fetched(program, each).status for each in links} <= {200}, uri
            assert "/explore/file:%2F%2F/project" in links or uri == "file:///no"


UNAVAILABLE = """
databases:
  gone: {url: sqlite:///gone.db}
  secret: {url: sqlite:///secret.db, access: {scopes: [boss:read]}}
"""
CAUSE = "create it, or correct"


def test_an_operator_is_told_that_a_mount_is_unavailable_and_why(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    manifest.write_text(manifest.read_text("utf-8").replace("databases:", UNAVAILABLE.strip(), 1))
    tokens = f"[{{token: {CLERK}}}, {{token: {BOSS}, scopes: [explorer.operator]}}]"
    http = f"http: {{auth: {{tokens: {tokens}}}}}\n"
    manifest.write_text(manifest.read_text("utf-8") + http, encoding="utf-8")
    with running(manifest) as program:
        clerk, boss = (cookie(sign_in(program, token)) for token in (CLERK, BOSS))
        for uri in ("sqlite:%2F%2Fgone", "sqlite:%2F%2Fgone/orders"):
            page = fetched(program, f"/explore/{uri}", cookie=boss)
            assert page.status == 503
            reason = f"/explore/hidden/{uri}"
            assert reason in page.body.decode()
            why = fetched(program, reason, cookie=boss)
            assert why.status == 503
            assert "gone is unavailable: " in text_of(why)
            assert CAUSE in text_of(why)
            # Others learn what every client does, and no reason.
            page = fetched(program, f"/explore/{uri}", cookie=clerk)
            assert (page.status, CAUSE in page.body.decode()) == (503, False)
            assert fetched(program, reason, cookie=clerk).status == 404
        # What is hidden from the operator, too, is like what is not there.
        for kind in ("", "hidden/"):
            answers = [
                fetched(program, f"/explore/{kind}sqlite:%2F%2F{name}", cookie=boss)
                for name in ("secret", "no_such")
            ]
            hidden, missing = (each.body.decode() for each in answers)
            assert hidden.replace("secret", "no_such") == missing
            assert [each.status for each in answers] == [404, 404]
