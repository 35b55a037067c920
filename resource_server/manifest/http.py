"""The `http` section of the manifest: for `serve --http`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from resource_server.access import Scope
from resource_server.provider import ByteSize
from resource_server.runtime.option_types import Duration
from resource_server.runtime.rate_limit import Rate

_PRINTABLE = re.compile(r"[!#-\[\]-~]+")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
"""What `Authorization: Bearer` can carry (RFC 6750, 2.1), and nobody guesses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How much clients may ask for."""

    body: ByteSize = ByteSize(4 * 1024 * 1024)
    """Of one request."""
    sessions: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """At once."""
    session_idle: Duration = Duration(30 * 60)
    """After so long without a request or stream a session ends."""
    streams: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    """At once: clients that wait to be told of changes."""
    rate: Rate | None = None
    """Requests of one subject, or of one address where there are no tokens: `200/s`. As often an
    address may come with tokens that do not count."""
    burst: Annotated[int, Meta(ge=1)] = 400
    """Requests at once, before `rate` counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token that an operator has given to somebody."""

    token: str = field(repr=False)
    """The token itself, from an environment variable."""
    subject: Annotated[str, Meta(min_length=1)] | None = None
    """Who has it; by default its place in the list."""
    scopes: tuple[Scope, ...] | None = None
    """What it allows; by default everything."""

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.token):
            raise ValueError(
                "token: expected 16 or more letters, digits or any of -._~+/, "
                "as 'openssl rand -hex 32' prints them"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """Whose tokens count. With it every request has to carry one."""

    issuer: str | tuple[str, ...] = ()
    """URL of the authorization server, or several; each is asked where its keys are."""
    jwks_url: str | None = None
    """Where the keys of the issuer are, if it cannot be asked."""
    audience: str | None = None
    """What tokens have to be issued for; by default `http.url`."""
    scopes: tuple[Scope, ...] = ()
    """Required of every request."""
    tokens: tuple[str | Token, ...] = field(default=(), repr=False)
    """Tokens without an issuer, from environment variables."""

    def __post_init__(self) -> None:
        if not self.issuers and not self.tokens:
            raise ValueError("whose tokens count? write 'issuer' or 'tokens'")
        for issuer in self.issuers:
            if not is_trustworthy(issuer) or "?" in issuer:
                raise ValueError(f"issuer: expected {_SECURE}, without a query")
        if self.jwks_url is not None:
            if len(self.issuers) != 1:
                raise ValueError("jwks_url: has the keys of one issuer; name that in 'issuer'")
            if not is_trustworthy(self.jwks_url):
                raise ValueError(f"jwks_url: expected {_SECURE}")
        if self.audience == "":
            raise ValueError("audience: expected what tokens are issued for, found nothing")
        tokens = [each.token for each in self.named_tokens]
        if len(set(tokens)) < len(tokens):
            raise ValueError("tokens: two of them are the same")

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers."""
        return (self.issuer,) if isinstance(self.issuer, str) else self.issuer

    @property
    def named_tokens(self) -> tuple[Token, ...]:
        """The tokens, each with a subject."""
        return tuple(self._named())

    def _named(self) -> Iterator[Token]:
        for number, given in enumerate(self.tokens, start=1):
            try:
                token = Token(token=given) if isinstance(given, str) else given
            except ValueError as error:
                raise ValueError(f"tokens: {str(error).removeprefix('token: ')}") from None
            subject = token.subject or f"token-{number}"
            yield Token(token=token.token, subject=subject, scopes=token.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """How the server is reached over HTTP, and by whom."""

    url: str | None = None
    """Public address of the endpoint, where it is not the one that is listened on."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which the server may be addressed, besides this machine's own; `name:*` with any
    port."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may ask: `https://app.example.org`."""
    limits: HttpLimits = HttpLimits()
    """How much clients may ask for."""
    # Not None: an entry that was left empty is a mistake, and must not open the server.
    auth: Auth | Literal[False] = False
    """Whose tokens count; by default nobody needs one."""
    metrics: bool = False
    """Answer `/metrics` also to other machines, which need a token if `auth` is there."""

    def __post_init__(self) -> None:
        if self.url is not None and (not _is_url(self.url) or "?" in self.url):
            raise ValueError("url: expected an address such as https://files.example.org/mcp")
        auth = self.auth
        if auth and auth.issuers and auth.audience is None and self.url is None:
            raise ValueError(
                "auth: tokens of an issuer have to be issued for this server; "
                "write 'url' in http, or 'audience' here"
            )


_SECURE = "an https:// URL (http:// only of this machine)"


def is_trustworthy(url: str) -> bool:
    """Whether nobody on the way to a URL can answer in its place."""
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
