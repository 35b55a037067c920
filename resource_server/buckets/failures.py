"""Failures of a storage service, as errors that name the bucket, and never a credential or URL."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from resource_server.errors import (
    DeadlineExceeded,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
    ResourceUnreadable,
)

_log = logging.getLogger(__name__)

_KEYS: Final = (
    "; give this server current ones: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, 'profile', or "
    "the role of its machine"
)
_BUSY: Final = (
    "SlowDown ServiceUnavailable Throttling ThrottlingException RequestLimitExceeded "
    "TooManyRequestsException InternalError RequestTimeout OperationAborted"
).split()
_CREDENTIALS: Final = {
    "ExpiredToken": "have expired",
    "ExpiredTokenException": "have expired",
    "InvalidAccessKeyId": "are not known to the service",
    "InvalidToken": "are not valid",
    "TokenRefreshRequired": "have expired",
    "SignatureDoesNotMatch": "do not match: the secret key is wrong",
    "AuthFailure": "are not valid",
    "RequestTimeTooSkewed": "are refused, since the clock of this machine is wrong",
}
_ELSEWHERE: Final = (
    "PermanentRedirect Redirect TemporaryRedirect AuthorizationHeaderMalformed "
    "IllegalLocationConstraintException 301 302 303 307 308"
).split()
ELSEWHERE: Final = "it is in another region or at another endpoint; correct 'region' or 'endpoint'"
_NO_CREDENTIALS: Final = frozenset(
    "NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError "
    "SSOError NoAuthTokenError ProfileNotFound MetadataRetrievalError".split()
)
_LATE: Final = frozenset(
    "ReadTimeoutError IncompleteReadError ResponseStreamingError ProtocolError".split()
)


class CredentialsRefused(MountUnavailable):
    """The credentials have expired, or are wrong; by now there may be others in their place."""


class Replaced(Exception):
    """The object was replaced in the meantime."""


class NoSuchRange(Exception):
    """The object ends before the range begins."""


def storage_error(error: Exception, bucket: str, action: str, *, is_object: bool) -> Exception:
    """Return the error for an exception of botocore; `action` is the permission that it takes.

    `is_object` tells a request for one object from one for a listing.
    """
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return _answered(cast("Mapping[str, Any]", response), bucket, action, is_object=is_object)
    if isinstance(error, MountUnavailable | DeadlineExceeded):
        return error
    if type(error).__name__ == "HTTPClientError" and isinstance(error.__cause__, Exception):
        error = error.__cause__
    names = {each.__name__ for each in type(error).__mro__}
    kind = type(error).__name__
    _log.debug("bucket %s: %s", bucket, kind)
    if names & _NO_CREDENTIALS:
        return _unavailable(bucket, f"no usable credentials ({kind}){_KEYS}")
    if names & _LATE:
        return DeadlineExceeded("the storage service did not answer in time; try again")
    if names & {"HTTPError", "OSError"}:
        reason = f"the storage service cannot be reached ({kind}); check 'endpoint' and network"
        return _unavailable(bucket, reason)
    if names & {"ValueError", "KeyError", "ResponseParserError"}:
        return unlike_s3()
    if "NoRegionError" in names:
        return _unavailable(bucket, "no region is known; write 'region'")
    return _unavailable(bucket, f"the storage service could not be asked ({kind})")


def _answered(
    response: Mapping[str, Any], bucket: str, action: str, *, is_object: bool
) -> Exception:
    """Return the error for an answer of the service."""
    code = str(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    code = "".join(each for each in code if each.isalnum())[:60]
    _log.debug("bucket %s: %s, status %s", bucket, code, status)
    if status in (429, 500, 502, 503, 504) or code in _BUSY:
        return ResourceBusy("the storage service is busy; try again later")
    if code in _CREDENTIALS:
        return CredentialsRefused(f"bucket {bucket!r}: the credentials {_CREDENTIALS[code]}{_KEYS}")
    reason = _of_every_request(code, status)
    if reason is not None:
        return _unavailable(bucket, reason)
    if is_object:
        found = _of_object(code, status)
    elif status == 404:
        found = _unavailable(bucket, "the service does not know it; correct 'path' or 'endpoint'")
    elif status in (401, 403):
        reason = f"access is denied; grant {action} to the login of this server"
        found = _unavailable(bucket, reason)
    else:
        found = None
    refusal = f"the storage service refused the request ({code or status})"
    return found or _unavailable(bucket, refusal)


def _of_every_request(code: str, status: int) -> str | None:
    """Return why a bucket cannot be served at all; None if it can."""
    if code == "NoSuchBucket":
        return "it does not exist; create it, or correct 'path'"
    if code in _ELSEWHERE or 300 <= status < 400:
        return ELSEWHERE
    return None


def _of_object(code: str, status: int) -> Exception | None:
    """Return the error for a request for one object."""
    if code == "InvalidObjectState":
        return ResourceUnreadable("cannot be read: it is archived, and its owner can restore it")
    if status in (401, 403):
        return ResourceUnreadable("cannot be read: the storage service refuses it")
    return {404: ResourceNotFound, 412: Replaced, 416: NoSuchRange}.get(status, lambda: None)()


def unlike_s3() -> MountUnavailable:
    """Return the error for an answer that is none of S3."""
    return MountUnavailable(
        "the storage service answers otherwise than S3 does; correct 'endpoint'"
    )


def _unavailable(bucket: str, reason: str) -> MountUnavailable:
    return MountUnavailable(f"bucket {bucket!r}: {reason}")
