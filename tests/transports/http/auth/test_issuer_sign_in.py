"""Signing in to pages at an issuer, and what goes wrong on the way."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2
import pytest

from resource_server.manifest.http import Auth, ExplorerOptions, HttpLimits
from resource_server.runtime.option_types import Rate
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from tests.cases import for_each
from tests.clients import typescript
from tests.transports.guarded import Endpoint, auth, guarded
from tests.transports.issuer import AUDIENCE, Issuer, issuing, key
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

CLIENT = ExplorerOptions(client_id="explorer")
PAGE = "/explore/file:%2F%2F/one/a.txt"
OPENID = {"id_token_signing_alg_values_supported": ["ES256"]}
METADATA = "/.well-known/oauth-authorization-server"


class Browser:
    """A browser with cookies of its own; it follows no redirects by itself."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.origin = endpoint.url.removesuffix("/mcp")
        self.http = httpx2.AsyncClient(base_url=self.origin, timeout=PATIENCE_S)

    async def open(self, address: str) -> httpx2.Response:
        return await self.http.get(address, headers={"accept": "text/html"})

    async def begin(self, to: str = PAGE) -> str:
        """Press the button; return where it leads."""
        page = await self.open(f"/explore/sign-in?{urlencode({'to': to})}")
        assert "Sign in at http://127.0.0.1:" in page.text
        answer = await self.open(f"/explore/sign-in/begin?{urlencode({'to': to})}")
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def may_look(self) -> bool:
        """Return whether the browser is signed in."""
        answer = await self.open(PAGE)
        assert answer.status_code in (200, 303)
        return answer.status_code == 200

    async def refused(self, address: str) -> httpx2.Response:
        """Open an address that signs nobody in."""
        answer = await self.open(address)
        assert "text/html" in answer.headers["content-type"]
        assert "set-cookie" not in answer.headers
        assert not await self.may_look()
        return answer


@asynccontextmanager
async def serving(
    folder: Path,
    issuer: Issuer,
    client: ExplorerOptions = CLIENT,
    timing: Timing = DEFAULT_TIMING,
    **options: Any,
) -> AsyncGenerator[Endpoint]:
    (folder / "a.txt").write_text("the text", "utf-8")
    async with guarded(folder, auth(issuer), timing=timing, explorer=client, **options) as found:
        yield found


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        issuer.discoverable(METADATA, **OPENID)
        yield issuer


@pytest.fixture
async def endpoint(tmp_path: Path, issuer: Issuer) -> AsyncIterator[Endpoint]:
    async with serving(tmp_path, issuer) as endpoint:
        yield endpoint


@pytest.fixture
async def browser(endpoint: Endpoint) -> AsyncIterator[Browser]:
    browser = Browser(endpoint)
    async with browser.http:
        yield browser


def changed(url: str, **changes: str | None) -> str:
    """Return a URL with other parameters; None removes one."""
    parts = urlsplit(url)
    found = {**dict(parse_qsl(parts.query)), **changes}
    kept = {name: value for name, value in found.items() if value is not None}
    return parts._replace(query=urlencode(kept)).geturl()


async def test_a_person_signs_in_and_comes_back_to_the_page(
    browser: Browser, issuer: Issuer
) -> None:
    url = await browser.begin()
    asked = dict(parse_qsl(urlsplit(url).query))
    assert asked["redirect_uri"] == f"{browser.origin}/explore/sign-in/return"
    assert (asked["resource"], asked["scope"]) == (AUDIENCE, "openid mcp:read")
    answer = await browser.open(issuer.sign_in(url))
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    assert "the text" in (await browser.open(PAGE)).text


@for_each("to", ["https://evil.example/", "//evil.example", "/mcp", "/explore/x" + "é" * 2000])
async def test_it_leads_to_no_other_place(browser: Browser, issuer: Issuer, to: str) -> None:
    answer = await browser.open(issuer.sign_in(await browser.begin(to)))
    assert answer.headers["location"] == "/explore/"


async def test_the_cookie_is_worth_nothing_at_the_endpoint(
    browser: Browser, issuer: Issuer, endpoint: Endpoint
) -> None:
    await browser.open(issuer.sign_in(await browser.begin()))
    cookies = "; ".join(f"{each.name}={each.value}" for each in browser.http.cookies.jar)
    assert (await endpoint.post(None, headers={"cookie": cookies})).status_code == 401


async def test_the_cookie_ends_with_the_token(browser: Browser, issuer: Issuer) -> None:
    issuer.tokens = {"access_token": issuer.token(exp=int(time.time()) + 300)}
    answer = await browser.open(issuer.sign_in(await browser.begin()))
    age = int(answer.headers["set-cookie"].partition("Max-Age=")[2].partition(";")[0])
    assert age <= 330
    assert await browser.may_look()


async def test_a_live_page_ends_with_the_token(tmp_path: Path, issuer: Issuer) -> None:
    async with serving(tmp_path, issuer, timing=Timing(clock_skew_s=0.0)) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            issuer.tokens = {"access_token": issuer.token(exp=int(time.time()) + 3)}
            await browser.open(issuer.sign_in(await browser.begin()))
            live = PAGE.replace("/explore/", "/explore/live/")
            async with browser.http.stream("GET", live) as stream:
                assert stream.status_code == 200
                lines = [line async for line in stream.aiter_lines()]
                assert lines[0] == "event: subscribed"
            assert not await browser.may_look()


async def test_the_cookie_of_a_sign_in_that_began_is_no_sign_in(browser: Browser) -> None:
    await browser.begin()
    [begun] = browser.http.cookies.jar
    name = begun.name.replace("explorer-issuer-", "explorer-")
    headers = {"cookie": f"{name}={begun.value}"}
    assert (await browser.http.get(PAGE, headers=headers)).status_code == 303


async def test_no_cookie_has_a_token_or_a_verifier(browser: Browser, issuer: Issuer) -> None:
    issuer.tokens = {"access_token": (token := issuer.token())}
    url = await browser.begin()
    begun = browser.http.cookies.jar
    assert [each.has_nonstandard_attr("HttpOnly") for each in begun] == [True]
    assert all(dict(parse_qsl(url))["state"] not in str(each.value) for each in begun)
    answer = await browser.open(issuer.sign_in(url))
    assert token not in str(answer.headers)


async def test_signing_out_removes_the_cookie(browser: Browser, issuer: Issuer) -> None:
    await browser.open(issuer.sign_in(await browser.begin()))
    await browser.http.post("/explore/sign-out", headers={"sec-fetch-site": "same-origin"})
    assert not await browser.may_look()


@for_each(
    "changes",
    [
        {"state": "x" * 43},
        {"state": ""},
        {"state": None},
        {"state": "é"},
        {"iss": "https://evil.example"},
        {"iss": ""},
        {"code": "another"},
        {"code": ""},
        {"code": None},
    ],
)
async def test_a_changed_answer_signs_nobody_in(
    browser: Browser, issuer: Issuer, changes: dict[str, str | None]
) -> None:
    good = issuer.sign_in(await browser.begin())
    answer = await browser.refused(changed(good, **changes))
    assert answer.status_code == 403
    assert (await browser.open(good)).status_code == 303
    browser.http.cookies.clear()


async def test_an_answer_counts_in_the_browser_that_began(
    browser: Browser, issuer: Issuer, endpoint: Endpoint
) -> None:
    other = Browser(endpoint)
    async with other.http:
        url = issuer.sign_in(await browser.begin())
        assert "another browser" in (await other.refused(url)).text
        await other.begin()
        assert "another browser" in (await other.refused(url)).text
    assert (await browser.open(url)).status_code == 303


async def test_a_code_of_another_sign_in_is_refused(
    browser: Browser, issuer: Issuer, endpoint: Endpoint
) -> None:
    attacker = Browser(endpoint)
    async with attacker.http:
        stolen = dict(parse_qsl(urlsplit(issuer.sign_in(await attacker.begin())).query))["code"]
    good = issuer.sign_in(await browser.begin())
    assert (
        "does not accept this sign-in" in (await browser.refused(changed(good, code=stolen))).text
    )


async def test_an_answer_works_once(browser: Browser, issuer: Issuer) -> None:
    url = issuer.sign_in(await browser.begin())
    begun = dict(browser.http.cookies)
    assert (await browser.open(url)).status_code == 303
    browser.http.cookies.clear()
    assert "another browser" in (await browser.refused(url)).text
    browser.http.cookies.update(begun)
    assert "happened before" in (await browser.refused(url)).text


async def test_of_two_sign_ins_the_later_one_counts(browser: Browser, issuer: Issuer) -> None:
    first = issuer.sign_in(await browser.begin())
    second = issuer.sign_in(await browser.begin())
    await browser.refused(first)
    assert (await browser.open(second)).status_code == 303


async def test_a_refusal_of_the_issuer_is_shown_as_text(browser: Browser, issuer: Issuer) -> None:
    good = issuer.sign_in(await browser.begin())
    said: dict[str, str | None] = {
        "code": None,
        "error": "access_denied",
        "error_description": "<b>no</b>",
    }
    answer = await browser.refused(changed(good, **said))
    assert "access_denied: &lt;b&gt;no&lt;/b&gt;" in answer.text


async def test_an_issuer_that_names_itself_must_do_so(browser: Browser, issuer: Issuer) -> None:
    issuer.discoverable(METADATA, authorization_response_iss_parameter_supported=True, **OPENID)
    good = issuer.sign_in(await browser.begin())
    await browser.refused(changed(good, iss=None))
    assert (await browser.open(good)).status_code == 303


@for_each(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"signer": key("two")},
        {"headers": {"typ": "at+jwt+x"}},
        None,
    ],
)
async def test_an_id_token_of_something_else_signs_nobody_in(
    browser: Browser, issuer: Issuer, claims: dict[str, Any] | None
) -> None:
    url = await browser.begin()
    nonce = dict(parse_qsl(url))["nonce"]
    good: dict[str, Any] = {"aud": "explorer", "scope": None, "nonce": nonce}
    made = None if claims is None else issuer.token(**{**good, **claims})
    issuer.tokens = {"id_token": made}
    assert "is not accepted here" in (await browser.refused(issuer.sign_in(url))).text
    issuer.tokens = {"id_token": issuer.token(**good)}
    assert (await browser.open(issuer.sign_in(url))).status_code == 303
    browser.http.cookies.clear()


async def test_an_access_token_for_something_else_signs_nobody_in(
    browser: Browser, issuer: Issuer
) -> None:
    with issuing() as other:
        for token in (
            "opaque",
            "",
            issuer.token(aud="https://evil.example/mcp"),
            issuer.token(scope="other"),
            issuer.token(exp=1),
            issuer.token(signer=key("two")),
            other.token(),
        ):
            issuer.tokens = {"access_token": token}
            answer = await browser.refused(issuer.sign_in(await browser.begin()))
            assert "is not accepted here" in answer.text
    for tokens in ({"token_type": "mac"}, {"access_token": None}, {"access_token": ["a"]}):
        issuer.tokens = tokens
        answer = await browser.refused(issuer.sign_in(await browser.begin()))
        assert "no bearer token" in answer.text


async def test_a_token_of_another_issuer_of_the_server_signs_nobody_in(
    tmp_path: Path, issuer: Issuer
) -> None:
    with issuing() as second:
        both = auth(issuer, second)
        async with guarded(tmp_path, both, explorer=CLIENT) as endpoint:
            assert await endpoint.status(second.token()) == 200
            browser = Browser(endpoint)
            async with browser.http:
                issuer.tokens = {"access_token": second.token()}
                answer = await browser.refused(issuer.sign_in(await browser.begin()))
                assert "of another issuer" in answer.text


@for_each(
    "faults",
    [
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"authorization_endpoint": "https://evil.example/\r\nset-cookie: a=b"},
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": None},
        {"issuer": "https://evil.example"},
    ],
)
async def test_metadata_with_faults_leads_nowhere(
    tmp_path: Path, issuer: Issuer, faults: dict[str, Any]
) -> None:
    issuer.discoverable(METADATA, **OPENID, **faults)
    async with serving(tmp_path, issuer) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            answer = await browser.refused("/explore/sign-in/begin")
            assert answer.status_code == 503
            assert "does not answer as it should" in answer.text


async def test_an_issuer_that_is_down_or_slow_is_named_on_a_page(
    tmp_path: Path, issuer: Issuer
) -> None:
    timing = Timing(jwks_fetch_timeout_s=0.3, jwks_retry_first_s=0.0, jwks_retry_max_s=0.0)
    async with serving(tmp_path, issuer, timing=timing) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            issuer.is_down = True
            assert (await browser.refused("/explore/sign-in/begin")).status_code == 503
            issuer.is_down = False
            issuer.answers.clear()
            assert (await browser.refused("/explore/sign-in/begin")).status_code == 503
            issuer.answers.set()
            url = issuer.sign_in(await browser.begin())
            issuer.answers.clear()
            assert (await browser.refused(url)).status_code == 503
            issuer.answers.set()
            url = issuer.sign_in(await browser.begin())
            assert (await browser.open(url)).status_code == 303


async def test_a_server_without_identities_is_asked_for_access_alone(
    tmp_path: Path, issuer: Issuer
) -> None:
    issuer.discoverable(METADATA)
    async with serving(tmp_path, issuer) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            url = await browser.begin()
            asked = dict(parse_qsl(url))
            assert (asked["scope"], asked.get("nonce")) == ("mcp:read", None)
            assert (await browser.open(issuer.sign_in(url))).status_code == 303


@for_each(
    "methods, expected",
    [
        (None, ("Basic ZXhwbG9yZXI6YSUyRmI=", None)),
        (["client_secret_post"], (None, "a/b")),
    ],
)
async def test_a_confidential_client_proves_itself(
    tmp_path: Path, issuer: Issuer, methods: list[str] | None, expected: tuple[str, str]
) -> None:
    more = {} if methods is None else {"token_endpoint_auth_methods_supported": methods}
    issuer.discoverable(METADATA, **OPENID, **more)
    client = ExplorerOptions(client_id="explorer", client_secret="a/b")  # noqa: S106
    async with serving(tmp_path, issuer, client) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            await browser.open(issuer.sign_in(await browser.begin()))
            assert issuer.clients[-1] == expected
            assert await browser.may_look()


async def test_the_scope_of_operators_is_asked_for_where_the_issuer_has_it(
    tmp_path: Path, issuer: Issuer
) -> None:
    issuer.discoverable(METADATA, **OPENID, scopes_supported=["openid", "explorer.operator"])
    async with serving(tmp_path, issuer) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            url = await browser.begin()
            assert dict(parse_qsl(url))["scope"] == "openid mcp:read explorer.operator"
            await browser.open(issuer.sign_in(url))
            assert (await browser.open(PAGE.replace("/explore/", "/explore/hidden/"))).is_success


async def test_the_public_url_is_where_the_issuer_sends_people_back(
    tmp_path: Path, issuer: Issuer
) -> None:
    url = "https://files.example.org/files/mcp"
    async with serving(tmp_path, issuer, url=url, allowed_hosts=("evil.example",)) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            answer = await browser.open("/files/explore/sign-in/begin")
            asked = dict(parse_qsl(answer.headers["location"]))
            at = "https://files.example.org/files/explore/sign-in/return"
            assert asked["redirect_uri"] == at
            assert answer.headers["set-cookie"].startswith("__Host-explorer-issuer=")


async def test_the_rate_limit_holds_for_signing_in(tmp_path: Path, issuer: Issuer) -> None:
    limits = HttpLimits(rate=Rate(0.001), burst=2)
    async with serving(tmp_path, issuer, limits=limits) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            url = issuer.sign_in(await browser.begin())
            assert (await browser.open(url)).status_code == 429


async def test_without_a_client_id_there_is_no_button(tmp_path: Path, issuer: Issuer) -> None:
    async with guarded(tmp_path, auth(issuer), explorer=True) as endpoint:
        browser = Browser(endpoint)
        async with browser.http:
            for address in ("", "/begin", "/return?code=a&state=b"):
                answer = await browser.refused(f"/explore/sign-in{address}")
                assert "Sign in at" not in answer.text


@contextmanager
def providing() -> Generator[subprocess.Popen[str]]:
    """Run a real OpenID provider, which says where it is, and waits for its client."""
    script = Path(typescript.__file__).with_name("oidc_provider.mjs")
    with subprocess.Popen(
        ["node", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def pass_interactions(http: httpx2.AsyncClient, url: str, back: str) -> str:
    """Log in and consent on the provider's own pages; return where it sends the person back."""
    while not url.startswith(back):
        answer = await http.get(url)
        if answer.status_code == 200:
            form = dict(re.findall(r'name="(prompt)" value="(\w+)"', answer.text))
            if form["prompt"] == "login":
                form |= {"login": "alice", "password": "any"}
            action = unescape(re.findall(r'action="([^"]+)"', answer.text)[0])
            answer = await http.post(urljoin(url, action), data=form)
        assert answer.status_code in (302, 303), answer.text
        url = urljoin(url, answer.headers["location"])
    return url


@typescript.needs("oidc-provider")
@pytest.mark.parametrize("secret", [None, "confidential/0123456789:%+"])
async def test_a_person_signs_in_at_a_real_openid_provider(
    tmp_path: Path, secret: str | None
) -> None:
    (tmp_path / "a.txt").write_text("the text", "utf-8")
    client = ExplorerOptions(client_id="explorer", client_secret=secret)
    with providing() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        accepted = Auth(
            issuer=process.stdout.readline().strip(), audience=AUDIENCE, scopes=("mcp:read",)
        )
        async with guarded(tmp_path, accepted, explorer=client) as endpoint:
            browser = Browser(endpoint)
            back = f"{browser.origin}/explore/sign-in/return"
            proof = ("client_secret", secret) if secret else ("token_endpoint_auth_method", "none")
            known = {"client_id": "explorer", "redirect_uris": [back], proof[0]: proof[1]}
            said = {"client": known, "resource": AUDIENCE, "scope": "mcp:read"}
            process.stdin.write(f"{json.dumps(said)}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
            async with browser.http, httpx2.AsyncClient(timeout=PATIENCE_S) as person:
                url = await browser.begin()
                answered = await pass_interactions(person, url, back)
                begun = dict(browser.http.cookies)
                answer = await browser.open(answered)
                assert (answer.status_code, answer.headers["location"]) == (303, PAGE), answer.text
                assert "the text" in (await browser.open(PAGE)).text
                browser.http.cookies.update(begun)
                assert "happened before" in (await browser.open(answered)).text
