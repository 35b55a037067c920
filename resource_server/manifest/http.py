"""The `http` section of the manifest, for `serve --http`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from resource_server.access import Scope
from resource_server.provider import ByteSize
from resource_server.runtime.option_types import Duration, OptionChecks, Rate, check_options

_PRINTABLE = re.compile(r"[!#-\[\]-~]+")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
"""The token syntax of `Authorization: Bearer` (RFC 6750, 2.1), too long to guess."""


_PUBLISHED = re.compile(r"\s*change[-_ .]?(this|me|it)", re.IGNORECASE)
"""The beginning of every sample secret in docs, examples and starter manifests."""


def is_published(secret: str) -> bool:
    """Return whether a token or key is a sample, which everybody may know."""
    return _PUBLISHED.match(secret) is not None


class HttpLimits(Struct, frozen=True, kw_only=True):
    """Limits of requests, sessions and streams."""

    body: ByteSize = ByteSize(4 * 1024 * 1024)
    """Maximum bytes of a request body."""
    sessions: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Maximum concurrent sessions."""
    session_idle: Duration = Duration(30 * 60)
    """Idle time, without a request or an open stream, after which a session ends."""
    streams: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    """Maximum concurrent streams of notifications."""
    rate: Rate | None = None
    """Maximum request rate of a subject, or of an address if there are no tokens: `200/s`. The
    same rate limits an address that sends invalid tokens."""
    burst: Annotated[int, Meta(ge=1)] = 400
    """Requests that may exceed `rate` in a burst."""


def _check_token(token: str) -> None:
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            "expected 16 or more letters, digits or any of -._~+/, "
            "as 'openssl rand -hex 32' prints them"
        )


class StaticToken(Struct, frozen=True, kw_only=True):
    """A static token, issued by the operator."""

    token: str
    """The token; take it from an environment variable."""
    subject: Annotated[str, Meta(min_length=1)] | None = None
    """Subject of its requests; by default `token-` and its position in the list."""
    scopes: tuple[Scope, ...] | None = None
    """Scopes it grants; by default those of `http.auth.scopes`, and no others."""
    claims: Mapping[str, Any] = {}
    """Claims it stands for, as those of a signed token: `{org: {id: 7}}`. `sub` is the subject,
    unless it is written here."""

    option_checks: ClassVar[OptionChecks] = {"token": _check_token}

    def __repr__(self) -> str:
        return f"StaticToken(subject={self.subject!r}, scopes={self.scopes!r})"

    def __post_init__(self) -> None:
        check_options(self)


class Auth(Struct, frozen=True, kw_only=True):
    """Accepted tokens. With it, every request must carry one."""

    issuer: str | tuple[str, ...] = ()
    """URL of the authorization server, or a list; its keys are found by discovery."""
    jwks_url: str | None = None
    """URL of the issuer's keys (JWKS), if discovery does not work."""
    audience: str | None = None
    """Required audience of tokens; by default `http.url`."""
    scopes: tuple[Scope, ...] = ()
    """Scopes required of every request."""
    tokens: tuple[str | StaticToken, ...] = ()
    """Static tokens; take them from environment variables. Text alone grants `scopes`."""

    option_checks: ClassVar[OptionChecks] = {
        "issuer": lambda issuer: _check_issuer(issuer),
        "jwks_url": lambda url: _check_jwks_url(url),
        "audience": lambda audience: _check_audience(audience),
        "tokens": lambda tokens: _check_tokens(tokens),
    }

    def __repr__(self) -> str:
        # Without the tokens.
        return f"Auth({self.issuers!r}, {self.audience!r}, {self.scopes!r})"

    def __post_init__(self) -> None:
        check_options(self)
        if not self.issuers and not self.tokens:
            raise ValueError("no tokens are accepted; write 'issuer' or 'tokens'")
        if self.jwks_url is not None and len(self.issuers) != 1:
            raise ValueError("jwks_url: goes with exactly one issuer; name it in 'issuer'")
        tokens = [each.token for each in self.named_tokens]
        if len(set(tokens)) < len(tokens):
            raise ValueError("tokens: the same token is given twice")

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers, as a tuple."""
        return (self.issuer,) if isinstance(self.issuer, str) else self.issuer

    @property
    def named_tokens(self) -> tuple[StaticToken, ...]:
        """The static tokens, each with a subject, scopes and claims."""
        given = [StaticToken(token=each) if isinstance(each, str) else each for each in self.tokens]
        return tuple(
            StaticToken(
                token=each.token,
                subject=each.subject or f"token-{number}",
                scopes=self.scopes if each.scopes is None else each.scopes,
                claims={"sub": each.subject or f"token-{number}", **each.claims},
            )
            for number, each in enumerate(given, start=1)
        )

    @property
    def unscoped_subjects(self) -> tuple[str, ...]:
        """Subjects of the static tokens that name no scopes."""
        given = zip(self.tokens, self.named_tokens, strict=True)
        return tuple(
            named.subject or ""
            for token, named in given
            if isinstance(token, str) or token.scopes is None
        )


class ExplorerOptions(Struct, frozen=True, kw_only=True):
    """This server as a client of its issuer, for the sign-in of people to pages."""

    client_id: Annotated[str, Meta(min_length=1)]
    """Id under which it is registered at the (first) issuer of `http.auth`."""
    client_secret: Annotated[str, Meta(min_length=1)] | None = None
    """Its secret, for a confidential client; take it from an environment variable."""

    def __repr__(self) -> str:
        return f"ExplorerOptions({self.client_id!r})"


class FleetOptions(Struct, frozen=True, kw_only=True):
    """The store by which several servers answer the same sessions."""

    url: str
    """URL of Redis (6 or later) or Valkey: `redis://`, `rediss://` or `unix://`; take it from an
    environment variable. It holds URIs of subscriptions, and no contents."""

    option_checks: ClassVar[OptionChecks] = {"url": lambda url: _check_store_url(url)}

    def __repr__(self) -> str:
        # Without the password.
        return "FleetOptions()"

    def __post_init__(self) -> None:
        check_options(self)


class Http(Struct, frozen=True, kw_only=True):
    """Address, authentication and limits of the HTTP server."""

    url: str | None = None
    """Public URL of the endpoint, if it differs from the address that `--http` listens on."""
    allowed_hosts: tuple[str, ...] = ()
    """Accepted `Host` headers, besides the names of this machine; `name:*` accepts any port."""
    allowed_origins: tuple[str, ...] = ()
    """Accepted origins of web pages: `https://app.example.org`."""
    limits: HttpLimits = HttpLimits()
    """Limits of requests, sessions and streams."""
    # False, not None: an empty `auth:` is a mistake and must not open the server.
    auth: Auth | Literal[False] = False
    """Accepted tokens; by default requests need none."""
    metrics: bool = False
    """Serve `/metrics` to other machines too; with `auth`, they need a token."""
    explorer: bool | ExplorerOptions | None = None
    """Serve pages for people at `/`; by default on this machine's own addresses, if the extra
    `explorer` is installed. With a `client_id`, people sign in to them at the issuer."""
    fleet: FleetOptions | None = None
    """Sessions that every server with the same `server.key` answers, subscriptions included."""

    option_checks: ClassVar[OptionChecks] = {"url": lambda url: _check_url(url)}

    def __post_init__(self) -> None:
        check_options(self)
        auth = self.auth
        if auth and auth.issuers and auth.audience is None and self.url is None:
            raise ValueError(
                "auth: the audience of the issuer's tokens is unknown; "
                "write 'url' in http, or 'audience' here"
            )
        if isinstance(self.explorer, ExplorerOptions) and not (auth and auth.issuers):
            raise ValueError("explorer: client_id is known to no issuer; write 'issuer' in auth")


def _check_issuer(issuer: str | tuple[str, ...]) -> None:
    for each in (issuer,) if isinstance(issuer, str) else issuer:
        if not is_trustworthy(each) or "?" in each:
            raise ValueError(f"expected {_SECURE}, without a query")


def _check_tokens(tokens: tuple[str | StaticToken, ...]) -> None:
    for each in tokens:
        if isinstance(each, str):
            _check_token(each)


def _check_jwks_url(url: str | None) -> None:
    if url is not None and not is_trustworthy(url):
        raise ValueError(f"expected {_SECURE}")


def _check_audience(audience: str | None) -> None:
    if audience == "":
        raise ValueError("expected the audience of tokens, found empty text")


def _check_store_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_place = bool(parts.path if parts.scheme == "unix" else parts.hostname)
        is_port = parts.port is None or parts.port > 0
    except ValueError:
        is_place = is_port = False
        parts = urlsplit("")
    if parts.scheme not in ("redis", "rediss", "unix") or not is_place or not is_port:
        raise ValueError("expected a URL such as redis://127.0.0.1:6379/0")


def _check_url(url: str | None) -> None:
    if url is not None and (not _is_url(url) or "?" in url):
        raise ValueError("expected an address such as https://files.example.org/mcp")


_SECURE = "an https:// URL (http:// only on this machine)"


def is_trustworthy(url: str) -> bool:
    """Return whether responses from a URL are authentic: HTTPS, or a loopback address."""
    if not _is_url(url):
        return False
    parts = urlsplit(url)
    return parts.scheme == "https" or _is_loopback(parts.hostname or "")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return (
        _PRINTABLE.fullmatch(text) is not None
        and parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port_is_valid
        and "@" not in parts.netloc
        and "#" not in text
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
