"""Discovery of an issuer's keys by its metadata (RFC 8414, OpenID Connect Discovery).

Blocks, so it runs in a thread.
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
"""A public key in the form of RFC 7517, not validated."""

MAX_DOCUMENT_BYTES = 256 * 1024


class KeysUnavailable(Exception):
    """The keys cannot be fetched; the text tells the operator why."""


class _Metadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_key_set = msgspec.json.Decoder(_KeySet).decode


def fetch_keys(issuer: str, jwks_url: str | None, timeout_s: float) -> Sequence[Jwk]:
    """Return the keys of an issuer; without `jwks_url`, from the address in its metadata.

    Raises:
        KeysUnavailable: they cannot be fetched, or not in time.
    """
    deadline = time.monotonic() + timeout_s
    url = jwks_url or _jwks_url(issuer, deadline)
    try:
        return _decode_key_set(_get(url, deadline)).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KeysUnavailable(f"no key set is at {url}") from None


def _jwks_url(issuer: str, deadline: float) -> str:
    """Return the address of the keys in the first metadata that is the issuer's own."""
    reasons: list[str] = []
    for url in _metadata_urls(issuer):
        try:
            metadata = _decode_metadata(_get(url, deadline))
        except KeysUnavailable as error:
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
    raise KeysUnavailable("; ".join(reasons))


def _metadata_urls(issuer: str) -> Iterator[str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    if path:
        yield f"{origin}/.well-known/openid-configuration{path}"
    yield f"{origin}{path}/.well-known/openid-configuration"


def _is_as_trustworthy(url: str, issuer: str) -> bool:
    """Return whether a URL is at least as hard to impersonate as the issuer's."""
    return is_trustworthy(url) and urlsplit(url).scheme in ("https", urlsplit(issuer).scheme)


class _SameOrigin(HTTPRedirectHandler):
    """Follows redirects within one origin only."""

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


def _get(url: str, deadline: float) -> bytes:
    """Return the document at a URL.

    Raises:
        KeysUnavailable: there is none, it is too large, or it does not come in time.
    """
    request = Request(  # noqa: S310 - both callers have checked the scheme
        url,
        headers={"accept": "application/json", "user-agent": f"resource-server/{__version__}"},
    )
    try:
        left_s = max(deadline - time.monotonic(), 0.001)
        with build_opener(_SameOrigin).open(request, timeout=left_s) as response:
            return _read(cast("http.client.HTTPResponse", response), deadline)
    except HTTPError as error:
        error.close()
        raise KeysUnavailable(f"{url} answers {error.code}") from None
    except TimeoutError:
        raise KeysUnavailable(f"{url} does not answer in time") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise KeysUnavailable(f"{url} cannot be read: {reason}") from None


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    parts: list[bytes] = []
    length = 0
    while part := response.read1(MAX_DOCUMENT_BYTES):
        parts.append(part)
        length += len(part)
        if length > MAX_DOCUMENT_BYTES:
            raise ValueError(f"it is longer than {MAX_DOCUMENT_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)
