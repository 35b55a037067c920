"""The keys of an issuer, from where it says they are (RFC 8414, OpenID Connect Discovery).

Blocks: for a thread of its own.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from resource_server import __version__
from resource_server.manifest.http import is_trustworthy

Jwk: TypeAlias = Mapping[str, Any]
"""A public key as RFC 7517 writes it, not looked into."""

TIMEOUT_S = 10.0
"""For all that is asked of an issuer to get its keys."""
MAX_BYTES = 256 * 1024
"""Of one document."""


class Unavailable(Exception):
    """The keys could not be had; the text says why, for the operator."""


class _Metadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_key_set = msgspec.json.Decoder(_KeySet).decode


def fetch(issuer: str, jwks_url: str | None) -> Sequence[Jwk]:
    """Return the keys of an issuer; without their URL, from where its metadata says they are.

    Raises:
        Unavailable: they cannot be had, or not in time.
    """
    until = time.monotonic() + TIMEOUT_S
    url = jwks_url or _discovered(issuer, until)
    try:
        return _decode_key_set(_get(url, until)).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unavailable(f"no key set is at {url}") from None


def _discovered(issuer: str, until: float) -> str:
    """Return where the keys are, by the first metadata that is the issuer's own."""
    reasons: list[str] = []
    for url in _metadata_urls(issuer):
        try:
            metadata = _decode_metadata(_get(url, until))
        except Unavailable as error:
            reasons.append(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            reasons.append(f"no metadata with keys is at {url}")
        else:
            if metadata.issuer != issuer:
                reasons.append(f"{url} is the metadata of another issuer")
            elif not _is_as_trustworthy(metadata.jwks_uri, issuer):
                reasons.append(f"{url} names keys at an address that is not https://")
            else:
                return metadata.jwks_uri
    raise Unavailable("; ".join(reasons))


def _metadata_urls(issuer: str) -> Iterator[str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    if path:
        yield f"{origin}/.well-known/openid-configuration{path}"
    yield f"{origin}{path}/.well-known/openid-configuration"


def _is_as_trustworthy(url: str, issuer: str) -> bool:
    """Whether nobody answers in the place of a URL who could not do so in the issuer's."""
    return is_trustworthy(url) and urlsplit(url).scheme in ("https", urlsplit(issuer).scheme)


class _SameOrigin(HTTPRedirectHandler):
    """Follows an issuer within its own host, and to nobody else."""

    def redirect_request(  # noqa: PLR0917 - as the base class has it
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> Request | None:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get(url: str, until: float) -> bytes:
    """Return the document at a URL.

    Raises:
        Unavailable: there is none, it is too large, or it does not come in time.
    """
    asked = Request(  # noqa: S310 - both callers know its scheme
        url,
        headers={"accept": "application/json", "user-agent": f"resource-server/{__version__}"},
    )
    try:
        left = max(until - time.monotonic(), 0.001)
        with build_opener(_SameOrigin).open(asked, timeout=left) as found:
            return _read(cast("http.client.HTTPResponse", found), until)
    except HTTPError as error:
        error.close()
        raise Unavailable(f"{url} answers {error.code}") from None
    except TimeoutError:
        raise Unavailable(f"{url} does not answer in time") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(f"{url} cannot be read: {reason}") from None


def _read(answer: http.client.HTTPResponse, until: float) -> bytes:
    parts: list[bytes] = []
    length = 0
    while part := answer.read1(MAX_BYTES):
        parts.append(part)
        length += len(part)
        if length > MAX_BYTES:
            raise ValueError(f"it is longer than {MAX_BYTES} bytes")
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(parts)
