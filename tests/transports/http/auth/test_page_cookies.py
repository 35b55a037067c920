"""Cookies of pages: when they are worth something."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from resource_server.access import Caller
from resource_server.transports.http.app.request import Exchange, HttpRequest, SentTotals
from resource_server.transports.http.auth.page_cookies import PageCookie

SECRET = b"secret"


class Older(NamedTuple):
    """Contents of another version."""

    subject: list[int]
    expires: float


async def _nothing(_: Any = None) -> Any:
    raise AssertionError


def asking(*cookies: str) -> HttpRequest:
    headers = [(b"host", b"127.0.0.1:8000"), *((b"cookie", each.encode()) for each in cookies)]
    scope = {"method": "GET", "scheme": "http", "path": "/", "headers": headers}
    return HttpRequest(scope, _nothing, Exchange(scope, _nothing, SentTotals()))


def issued(cookie: PageCookie[Any], contents: Any) -> str:
    [(name, value)] = cookie.issued(asking(), contents)
    assert name == b"set-cookie"
    return value.decode().partition(";")[0]


def cookie_of(kind: type[Any] = Caller, secret: bytes = SECRET) -> PageCookie[Any]:
    return PageCookie("explorer", kind, secret, has_tls=False)


def test_a_cookie_gives_back_its_contents_until_it_expires() -> None:
    cookie = cookie_of()
    caller = Caller("alice", frozenset(("a", "b")), time.time() + 60)
    assert cookie.contents(asking(issued(cookie, caller))) == caller
    for late in (time.time() - 1, 0.0, None):
        value = issued(cookie, caller._replace(expires=late))
        assert cookie.contents(asking(value)) is None


def test_a_cookie_of_another_secret_or_version_is_worth_nothing() -> None:
    good = time.time() + 60
    assert (
        cookie_of().contents(asking(issued(cookie_of(secret=b"x"), Caller("a", None, good))))
        is None
    )
    assert cookie_of().contents(asking(issued(cookie_of(Older), Older([1], good)))) is None


def test_the_first_of_repeated_cookies_counts() -> None:
    cookie = cookie_of()
    a, b = (issued(cookie, Caller(name, None, time.time() + 60)) for name in "ab")
    for request in (asking(f"{a}; {b}"), asking(a, b)):
        found = cookie.contents(request)
        assert found is not None
        assert found.subject == "a"
