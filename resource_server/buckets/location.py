"""Locations in object storage: the bucket and prefix of an `s3://` URL, and endpoints."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from resource_server import uris
from resource_server.errors import MountUnavailable

SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]", re.ASCII)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_REFUSED = tuple(
    ipaddress.ip_network(each)
    for each in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200", "fd20:ce::254")
)
"""Link-local addresses, and those at which clouds give credentials to machines."""


class Location(NamedTuple):
    """A bucket, and the prefix of the keys that are served: empty, or with a final slash."""

    bucket: str
    prefix: str

    @property
    def name(self) -> str:
        """The last segment, for people."""
        return self.prefix[:-1].rpartition("/")[2] or self.bucket


def is_object_url(text: str) -> bool:
    """Return whether a path or an argument is the URL of a bucket or a prefix in one."""
    return text[: len(SCHEME)].lower() == SCHEME


def is_name(segment: str) -> bool:
    """Return whether a segment of a key can be one of a path: no control, and Unicode."""
    return uris.is_segment(segment) and uris.is_unicode(segment) and not _CONTROLS.search(segment)


def parse_location(url: str) -> Location:
    """Return the bucket and the prefix of an `s3://` URL.

    Raises:
        ValueError: it has no bucket, or no prefix that a path may have.
    """
    bucket, _, prefix = url[len(SCHEME) :].partition("/")
    if not is_object_url(url) or not bucket:
        raise ValueError("path: names no bucket; write s3://bucket or s3://bucket/prefix")
    if not _BUCKET.fullmatch(bucket):
        raise ValueError("path: a bucket has 3 or more letters, digits, '-', '_' and '.'")
    # A prefix of slashes alone must not become the whole bucket.
    if prefix and not all(map(is_name, prefix.removesuffix("/").split("/"))):
        raise ValueError("path: a prefix has no empty, '.' or '..' segment and no control")
    return Location(bucket, prefix and f"{prefix.removesuffix('/')}/")


def check_endpoint(endpoint: str | None) -> None:
    """Check the URL of a storage service.

    Raises:
        ValueError: it is none, or has more than a scheme, a host, a port and a path.
    """
    if endpoint is None:
        return
    try:
        parts = urlsplit(endpoint)  # which passes over some blanks
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        is_usable = is_usable and not _BLANKS.search(endpoint)
    except ValueError:
        parts, is_usable = None, False
    if parts is None or not is_usable:
        raise ValueError("endpoint: is no URL; write one such as https://storage.example.com:9000")
    if parts.username is not None or parts.password is not None:
        raise ValueError("endpoint: carries a login; keys come from the environment or a profile")
    if parts.query or parts.fragment:
        raise ValueError("endpoint: has a query or a fragment; write the scheme, host and port")


def addresses_of(host: str) -> set[str]:
    """Return the addresses of a host name. Blocks.

    Raises:
        MountUnavailable: it has none.
    """
    try:
        return {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        raise MountUnavailable(
            f"the host {host!r} of the storage service is not known; correct 'endpoint' or 'region'"
        ) from None


def refuse_link_local(host: str, addresses: Iterable[str]) -> None:
    """Refuse a host name that leads to link-local addresses; an address is what it says.

    Raises:
        MountUnavailable: it leads there.
    """
    for address in addresses:
        parsed = ipaddress.ip_address(address.partition("%")[0])
        mapped = getattr(parsed, "ipv4_mapped", None) or parsed
        if any(mapped in network for network in _REFUSED):
            raise MountUnavailable(
                f"the host {host!r} of the storage service leads to a link-local address, or to "
                "one at which clouds give credentials; if this is meant, write the address "
                "itself as 'endpoint'",
                is_temporary=False,
            )


def is_address(host: str) -> bool:
    """Return whether a host is an address, and no name."""
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True
