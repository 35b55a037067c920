"""A bucket as this server uses it: pages of keys, heads of objects, and ranges of their bytes.

Every call blocks, and ends within its deadline. Keys are exact: they are decoded here, since
botocore replaces bytes that are not UTF-8, and would let one object stand for another.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, cast
from urllib.parse import unquote_to_bytes

import msgspec

from resource_server.buckets import failures
from resource_server.buckets.location import Location
from resource_server.buckets.transport import Deadline, Traffic, Transport
from resource_server.errors import DeadlineExceeded, MountUnavailable
from resource_server.runtime.extras import require_packages

MAX_KEYS = 1000
"""Maximum keys of one page, by the protocol."""
MAX_KEY_BYTES = 1024
LAST = "\U0010ffff"
"""After a slash: behind every key below a collection."""
_ATTEMPTS = 2
_CHUNK_BYTES = 16 * 1024
"""Bytes between two looks at the clock, on a line however slow."""
_RENEWAL_S = 10.0
"""Minimum pause before refused credentials are looked for again."""
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables by which botocore takes another endpoint."""


class Body(Protocol):
    """The body of a response, as botocore streams it."""

    def read(self, amt: int) -> bytes:
        """Return up to `amt` bytes; none at the end."""
        ...

    def close(self) -> None:
        """Give up the connection, if bytes are left."""
        ...


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """The facts of an object in a listing or the response to HEAD."""

    size: int
    etag: str
    modified: float
    """Seconds since the epoch."""


class KeyPage(msgspec.Struct, frozen=True):
    """Some keys in the order of the storage: objects, and prefixes that end with a slash."""

    entries: Sequence[tuple[str, StoredObject | None]]
    """Keys of objects, and prefixes with None."""
    undecodable: int
    last: str
    """The last key, also if it cannot be decoded; empty without any."""
    token: str | None
    """Continues after this page; None at the end."""


class Bucket:
    """One bucket, by a client that all threads share."""

    def __init__(
        self,
        location: Location,
        *,
        endpoint: str | None,
        region: str | None,
        profile: str | None,
        anonymous: bool,
        connections: int,
    ) -> None:
        self.location = location
        self._options = endpoint, region, profile, anonymous, connections
        self._client: Any = None
        self._transport: Transport | None = None
        self._traffic = Traffic()
        self._made_at = 0.0

    def open(self) -> None:
        """Make the client, and see whether the bucket can be listed.

        Raises:
            MountUnavailable: no package, no credentials, no service, no bucket or no access.
        """
        require_packages("s3", "object storage")
        endpoint, region, profile, anonymous, connections = self._options
        # Imported here: it takes half a second, and most servers have no object storage.
        session = importlib.import_module("botocore.session")
        config = importlib.import_module("botocore.config")
        unsigned = importlib.import_module("botocore").UNSIGNED
        options: dict[str, Any] = {
            "retries": {"mode": "standard", "total_max_attempts": _ATTEMPTS},
            # Services that are not Amazon's have one host for all buckets, and few checksums.
            "s3": {"addressing_style": "path" if self._is_elsewhere else "auto"},
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
        if anonymous:
            options["signature_version"] = unsigned
        try:
            found = session.Session(profile=profile)
            region = region or found.get_config_variable("region")
            self._client = found.create_client(
                "s3",
                region_name=region or ("us-east-1" if self._is_elsewhere else None),
                endpoint_url=endpoint,
                config=config.Config(**options),
            )
            self._transport = Transport(
                found.get_config_variable("ca_bundle"), connections, self._traffic
            )
        except Exception as error:
            raise self._explained(error, "s3:ListBucket", is_object=False) from None
        self._made_at = time.monotonic()
        events = self._client.meta.events
        events.register("before-send.s3", self._transport.send)
        if self._is_elsewhere:
            # Sent by botocore alone, after redirects, and again after redirects of these.
            events.register("before-call.s3.HeadBucket", self._refuse_redirect)
        self.page(self.location.prefix, limit=1)

    def _refuse_redirect(self, **_: object) -> None:
        raise MountUnavailable(f"bucket {self.location.bucket!r}: {failures.ELSEWHERE}")

    @property
    def _is_elsewhere(self) -> bool:
        """Whether the manifest or the environment names a service that is not Amazon's."""
        return bool(self._options[0]) or any(name in os.environ for name in _ENDPOINTS)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of requests, of those that failed, and of bytes received."""
        return self._traffic.counts

    def close(self) -> None:
        """Close idle connections."""
        if self._transport is not None:
            self._transport.close()

    def page(
        self,
        prefix: str,
        *,
        limit: int,
        after: str = "",
        token: str | None = None,
        is_deep: bool = False,
    ) -> KeyPage:
        """Return keys that begin with a prefix, after a key, at most `limit`: one request.

        What follows the next slash is one entry, unless `is_deep`.
        """
        asked: dict[str, Any] = {"Prefix": prefix, "MaxKeys": min(limit, MAX_KEYS)}
        if not is_deep:
            asked["Delimiter"] = "/"
        if token is not None:
            asked["ContinuationToken"] = token
        elif after:
            asked["StartAfter"] = after
        found = self._ask(
            "list_objects_v2", "s3:ListBucket", is_object=False, EncodingType="url", **asked
        )
        is_encoded = found.get("EncodingType") == "url"
        entries: list[tuple[str, StoredObject | None]] = []
        try:
            named = [
                (each["Key"], _stored(each, each.get("Size"))) for each in found.get("Contents", ())
            ]
            named += [(each["Prefix"], None) for each in found.get("CommonPrefixes", ())]
            token = found["NextContinuationToken"] if found["IsTruncated"] else None
        except KeyError:  # a page for people, or nothing: no empty bucket, and no end of a listing
            raise failures.unlike_s3() from None
        last = b""
        for written, stored in named:
            key = unquote_to_bytes(written.replace("+", " ")) if is_encoded else written.encode()
            last = max(last, key)
            with suppress(UnicodeDecodeError):
                entries.append((key.decode(), stored))
        entries.sort(key=lambda entry: entry[0])
        return KeyPage(entries, len(named) - len(entries), last.decode(errors="replace"), token)

    def head(self, key: str) -> StoredObject:
        """Return what is known of an object: one request.

        Raises:
            ResourceNotFound: there is none.
        """
        return _headed(self._ask("head_object", "s3:GetObject", Key=key))

    def get(
        self, key: str, *, etag: str | None = None, first: int | None = None, last: int = 0
    ) -> tuple[StoredObject, Body]:
        """Return an object and its bytes, or those from `first` to `last`: one request.

        The caller closes the body. With `etag`, it is that of the object.

        Raises:
            ResourceNotFound: there is none.
            Replaced: it has another `etag`.
            NoSuchRange: it ends before `first`.
        """
        asked: dict[str, Any] = {"Key": key}
        if etag is not None:
            asked["IfMatch"] = etag
        if first is not None:
            asked["Range"] = f"bytes={first}-{last}"
        found = self._ask("get_object", "s3:GetObject", **asked)
        body = cast("Body", found["Body"])
        try:
            stored = _headed(found)
            # Not every service heeds the condition, or takes ranges.
            if etag is not None and stored.etag != etag:
                raise failures.Replaced
            if first is not None and found["ResponseMetadata"]["HTTPStatusCode"] != 206:
                raise MountUnavailable("the storage service takes no ranges; use another one")
        except BaseException:
            body.close()
            raise
        return stored, body

    def read(self, body: Body, limit: int, deadline: Deadline) -> bytes:
        """Return up to `limit` bytes of a body, and close it.

        Raises:
            DeadlineExceeded: they do not come in time, or the connection is cut.
        """
        blocks: list[bytes] = []
        try:
            while limit > 0:
                deadline.check()
                block = body.read(min(limit, _CHUNK_BYTES))
                if not block:
                    break
                blocks.append(block)
                limit -= len(block)
        except DeadlineExceeded:
            raise
        except Exception as error:
            raise self._explained(error, "s3:GetObject", is_object=True) from None
        finally:
            body.close()
            self._traffic.add(size=sum(map(len, blocks)))
        return b"".join(blocks)

    def _ask(
        self, operation: str, action: str, *, is_object: bool = True, **asked: Any
    ) -> Mapping[str, Any]:
        client = self._client
        if client is None:
            self.open()
            client = self._client
        try:
            return getattr(client, operation)(Bucket=self.location.bucket, **asked)
        except Exception as error:
            explained = self._explained(error, action, is_object=is_object)
            is_refused = isinstance(explained, failures.CredentialsRefused)
            if is_refused and time.monotonic() - self._made_at > _RENEWAL_S:
                self._client = None  # the next request reads files and variables again
            raise explained from None

    def _explained(self, error: Exception, action: str, *, is_object: bool) -> Exception:
        return failures.storage_error(error, self.location.bucket, action, is_object=is_object)


def _headed(found: Mapping[str, Any]) -> StoredObject:
    _, slash, total = str(found.get("ContentRange", "")).rpartition("/")
    return _stored(found, total if slash and total.isdigit() else found.get("ContentLength"))


def _stored(found: Mapping[str, Any], size: Any) -> StoredObject:
    try:
        # Heads have no fractions of seconds.
        modified = int(found["LastModified"].timestamp())
        stored = StoredObject(int(size), str(found["ETag"]), float(modified))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise failures.unlike_s3() from None
    if stored.size < 0:
        raise failures.unlike_s3()
    return stored
