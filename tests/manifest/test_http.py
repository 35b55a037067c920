from __future__ import annotations

import pathlib

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest.http import Auth, ExplorerOptions, Http, StaticToken
from resource_server.manifest.load import load
from tests.cases import for_each

GOOD = "0123456789abcdef"
OTHER = "fedcba9876543210"
WEAK = "hunter-2-secret"
ISSUER = "https://login.example.org"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SECRET", GOOD), ("OTHER", OTHER), ("WEAK", WEAK)):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MISSING", raising=False)


def http(folder: pathlib.Path, text: str) -> Http:
    file = folder / "m.yaml"
    file.write_text(f"roots: {{a: {{path: .}}}}\nhttp: {{{text}}}\n", "utf-8")
    return load(file).http


def auth(folder: pathlib.Path, text: str) -> Auth:
    found = http(folder, f"auth: {{{text}}}").auth
    assert found
    return found


def test_authentication_is_off_by_default(tmp_path: pathlib.Path) -> None:
    assert http(tmp_path, "").auth is False


@pytest.mark.parametrize(
    "issuer", [ISSUER, "http://localhost:8080", "http://[::1]/x", f"{ISSUER}/"]
)
def test_an_issuer_is_read(tmp_path: pathlib.Path, issuer: str) -> None:
    found = auth(tmp_path, f"issuer: '{issuer}', audience: a, scopes: ['mcp:read']")
    assert (found.issuers, found.audience, found.scopes) == ((issuer,), "a", ("mcp:read",))


def test_several_issuers_are_allowed(tmp_path: pathlib.Path) -> None:
    found = auth(tmp_path, f"issuer: ['{ISSUER}', 'https://b.example'], audience: a")
    assert found.issuers == (ISSUER, "https://b.example")


def test_the_public_url_is_the_default_audience(tmp_path: pathlib.Path) -> None:
    found = http(tmp_path, f"url: 'https://f.example/mcp', auth: {{issuer: '{ISSUER}'}}")
    assert found.auth
    assert (found.url, found.auth.audience) == ("https://f.example/mcp", None)


def test_static_tokens_have_subjects_other_than_the_tokens(tmp_path: pathlib.Path) -> None:
    text = "tokens: ['${SECRET}', {token: '${OTHER}', subject: ci, scopes: [a]}]"
    assert auth(tmp_path, text).named_tokens == (
        StaticToken(token=GOOD, subject="token-1", scopes=(), claims={"sub": "token-1"}),
        StaticToken(token=OTHER, subject="ci", scopes=("a",), claims={"sub": "ci"}),
    )


def test_static_tokens_have_the_claims_that_they_name(tmp_path: pathlib.Path) -> None:
    text = "tokens: [{token: '${OTHER}', subject: ci, claims: {org: {id: 7}, teams: [a, b]}}, "
    text += "{token: '${SECRET}', subject: ci, claims: {sub: '5'}}]"
    assert [each.claims for each in auth(tmp_path, text).named_tokens] == [
        {"sub": "ci", "org": {"id": 7}, "teams": ["a", "b"]},
        {"sub": "5"},
    ]


def test_two_tokens_may_have_the_same_subject(tmp_path: pathlib.Path) -> None:
    text = "tokens: [{token: '${SECRET}', subject: ci}, {token: '${OTHER}', subject: ci}]"
    assert [each.subject for each in auth(tmp_path, text).named_tokens] == ["ci", "ci"]


def test_tokens_never_appear_in_a_repr(tmp_path: pathlib.Path) -> None:
    found = http(tmp_path, "auth: {tokens: ['${SECRET}', {token: '${OTHER}'}]}")
    assert found.auth
    shown = f"{found!r} {found.auth.named_tokens!r} {found.auth}"
    assert "subject='token-1'" in shown
    assert not [secret for secret in (GOOD, OTHER) if secret in shown]


def test_a_request_limit_is_a_rate_or_a_number(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE", "7.5")
    for written, rate in (("200/s", 200), ("30/m", 0.5), ("200", 200), ("'${RATE}'", 7.5)):
        assert http(tmp_path, f"limits: {{rate: {written}}}").limits.rate == rate


SECURE = "expected an https:// URL (http:// only on this machine)"
EXPECTED = (
    "expected 16 or more letters, digits or any of -._~+/, as 'openssl rand -hex 32' prints them"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auth: ", "http.auth: expected a mapping or false, found nothing"),
        (
            "limits: {rate: often}",
            "http.limits.rate: not a rate above 0; write how many a second, minute or hour: "
            "200/s, 30/m (found 'often')",
        ),
        ("auth: true", "http.auth: expected a mapping or false, found true"),
        ("auth: {}", "http.auth: no tokens are accepted; write 'issuer' or 'tokens'"),
        ("auth: {scopes: [a]}", "http.auth: no tokens are accepted; write 'issuer' or 'tokens'"),
        (
            f"auth: {{issuer: '{ISSUER}'}}",
            "http.auth: the audience of the issuer's tokens is unknown; "
            "write 'url' in http, or 'audience' here",
        ),
        (
            "auth: {issuer: 'http://login.example.org', audience: a}",
            f"http.auth.issuer: {SECURE}, without a query",
        ),
        ("auth: {issuer: login, audience: a}", f"http.auth.issuer: {SECURE}, without a query"),
        ("auth: {issuer: '', audience: a}", f"http.auth.issuer: {SECURE}, without a query"),
        (
            f"auth: {{issuer: ['{ISSUER}', 'ftp://b'], audience: a}}",
            f"http.auth.issuer: {SECURE}, without a query",
        ),
        (
            f"auth: {{issuer: '{ISSUER}?a', audience: a}}",
            f"http.auth.issuer: {SECURE}, without a query",
        ),
        (
            "auth: {issuer: 'https://u:p@login.example.org', audience: a}",
            f"http.auth.issuer: {SECURE}, without a query",
        ),
        (
            f"auth: {{issuer: '{ISSUER}', audience: ''}}",
            "http.auth.audience: expected the audience of tokens, found empty text",
        ),
        (
            f"auth: {{issuer: '{ISSUER}', audience: a, jwks_url: 'http://b.example/keys'}}",
            f"http.auth.jwks_url: {SECURE}",
        ),
        (
            "auth: {tokens: ['${SECRET}'], jwks_url: 'https://b.example/keys'}",
            "http.auth.jwks_url: goes with exactly one issuer; name it in 'issuer'",
        ),
        (
            f"auth: {{issuer: ['{ISSUER}', 'https://b.example'], audience: a, "
            "jwks_url: 'https://b.example/keys'}",
            "http.auth.jwks_url: goes with exactly one issuer; name it in 'issuer'",
        ),
        (
            "auth: {tokens: ['${SECRET}'], scopes: ['a b']}",
            r"http.auth.scopes[0]: expected text that matches ^[!#-\[\]-~]+$, found 'a b'",
        ),
        (
            "auth: {tokens: ['${SECRET}'], scopes: ['a\"']}",
            "http.auth.scopes[0]: expected text that matches ^[!#-\\[\\]-~]+$, found 'a\"'",
        ),
        (
            "auth: {isuer: x}",
            "http.auth.isuer: unknown option; did you mean 'issuer'?",
        ),
        (
            "auth: {tokens: ['${MISSING}']}",
            "http.auth.tokens[0]: environment variable MISSING is not set; "
            "set it or write ${MISSING:-default}",
        ),
        ("auth: {tokens: ['${MISSING:-}']}", f"http.auth.tokens: {EXPECTED}"),
        ("auth: {tokens: ['${WEAK}']}", f"http.auth.tokens: {EXPECTED}"),
        ("auth: {tokens: [{token: '${WEAK}'}]}", f"http.auth.tokens[0].token: {EXPECTED}"),
        ("auth: {tokens: ['a token with spaces']}", f"http.auth.tokens: {EXPECTED}"),
        (
            "auth: {tokens: ['${SECRET}', '${SECRET}']}",
            "http.auth.tokens: the same token is given twice",
        ),
        (
            "auth: {tokens: '${SECRET}'}",
            "http.auth.tokens: expected a list, found '${SECRET}'; put it in brackets",
        ),
        (
            "url: files/mcp",
            "http.url: expected an address such as https://files.example.org/mcp",
        ),
        (
            "url: 'https://files.example.org/mcp?a#b'",
            "http.url: expected an address such as https://files.example.org/mcp",
        ),
        (
            "url: 'https://files.example.org:99999/'",
            "http.url: expected an address such as https://files.example.org/mcp",
        ),
    ],
)
def test_invalid_http_options_are_refused_without_revealing_secrets(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        http(tmp_path, text)
    (found,) = caught.value.diagnostics
    assert (found.line, f"{found.where}: {found.message}") == (2, message)
    for secret in (GOOD, OTHER, WEAK):
        assert secret not in str(found)


def test_the_explorer_is_switched_or_a_client_of_the_issuer(tmp_path: pathlib.Path) -> None:
    assert http(tmp_path, "explorer: true").explorer is True
    assert http(tmp_path, "explorer: false").explorer is False
    assert http(tmp_path, "").explorer is None
    accepted = f"auth: {{issuer: '{ISSUER}', audience: a}}"
    found = http(
        tmp_path, f"{accepted}, explorer: {{client_id: pages, client_secret: '${{SECRET}}'}}"
    )
    assert found.explorer == ExplorerOptions(client_id="pages", client_secret=GOOD)
    assert GOOD not in f"{found!r} {found.explorer}"
    for text, reason in (
        (f"{accepted}, explorer: {{}}", "'client_id' is missing"),
        (f"{accepted}, explorer: {{client_id: ''}}", "1 or more characters"),
        ("explorer: {client_id: pages}", "known to no issuer"),
        ("explorer: {client_id: pages}, auth: {tokens: ['${SECRET}']}", "known to no issuer"),
    ):
        with pytest.raises(ManifestError, match=reason):
            http(tmp_path, text)


@for_each(
    "url", ["http://h", "redis://", "redis://h:0", "redis://h:x", "unix://", "h:6379", "", "redis"]
)
def test_a_store_of_a_fleet_is_a_url_of_redis(tmp_path: pathlib.Path, url: str) -> None:
    with pytest.raises(ManifestError, match="expected a URL such as redis://"):
        http(tmp_path, f"fleet: {{url: '{url}'}}")


def test_a_fleet_needs_a_lasting_key(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ManifestError, match=r"needs a secret .* write 'key' in"):
        http(tmp_path, "fleet: {url: 'redis://:${SECRET}@127.0.0.1:6379/0'}")
    file = tmp_path / "m.yaml"
    key = "0123456789abcdef0123456789abcdef"
    for url in ("redis://:pass@h", "rediss://h:6380/1", "unix:///run/redis.sock"):
        served = f"server: {{key: {key}}}\nroots: {{a: {{path: .}}}}\n"
        file.write_text(f"{served}http: {{fleet: {{url: '{url}'}}}}\n")
        fleet = load(file).http.fleet
        assert fleet is not None
        assert fleet.url == url
        assert "pass" not in repr(load(file).http)


def test_a_sample_is_no_secret_of_a_client(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "m.yaml"
    client = "{client_id: pages, client_secret: change-me}"
    file.write_text(
        f"roots: {{a: {{path: .}}}}\n"
        f"http: {{auth: {{issuer: '{ISSUER}', audience: a}}, explorer: {client}}}\n",
        "utf-8",
    )
    assert "http.explorer.client_secret" in str(load(file).published_secrets[0])
