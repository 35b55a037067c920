from __future__ import annotations

import botocore.exceptions as botocore  # pyright: ignore[reportMissingTypeStubs]

from resource_server.buckets.failures import (
    ELSEWHERE,
    CredentialsRefused,
    NoSuchRange,
    Replaced,
    storage_error,
)
from resource_server.errors import (
    DeadlineExceeded,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
    ResourceUnreadable,
)
from tests.cases import for_each


def _answer(code: str, status: int, *, is_object: bool = True) -> Exception:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = botocore.ClientError(answer, "GetObject")  # pyright: ignore[reportArgumentType]
    return storage_error(error, "photos", "s3:GetObject", is_object=is_object)


@for_each(
    ("code", "status", "of_object", "of_listing"),
    [
        ("ExpiredToken", 503, ResourceBusy, ResourceBusy),
        ("RequestTimeout", 400, ResourceBusy, ResourceBusy),
        ("ExpiredToken", 400, CredentialsRefused, CredentialsRefused),
        ("InvalidAccessKeyId", 403, CredentialsRefused, CredentialsRefused),
        ("InvalidObjectState", 403, ResourceUnreadable, MountUnavailable),
        ("AccessDenied", 403, ResourceUnreadable, MountUnavailable),
        ("NoSuchBucket", 404, MountUnavailable, MountUnavailable),
        ("NoSuchKey", 404, ResourceNotFound, MountUnavailable),
        ("PreconditionFailed", 412, Replaced, MountUnavailable),
        ("InvalidRange", 416, NoSuchRange, MountUnavailable),
        ("PermanentRedirect", 400, MountUnavailable, MountUnavailable),
        ("", 0, MountUnavailable, MountUnavailable),
    ],
)
def test_an_answer_means_another_thing_for_an_object_than_for_a_listing(
    code: str, status: int, of_object: type[Exception], of_listing: type[Exception]
) -> None:
    assert type(_answer(code, status)) is of_object
    assert type(_answer(code, status, is_object=False)) is of_listing


def test_a_redirect_without_a_code_names_the_options() -> None:
    assert ELSEWHERE in str(_answer("", 307))
    assert ELSEWHERE in str(_answer("301", 0, is_object=False))


def test_a_code_of_a_hostile_service_is_cut_and_without_signs() -> None:
    told = str(_answer("\x1b[2J<https://evil.example/>" + "x" * 1000, 400))
    assert len(told) < 150
    assert not set("\x1b<>:/[") & set(told.partition("(")[2])


def test_a_lost_connection_tells_the_bucket_and_no_url() -> None:
    url = "https://AKIA:geheim@storage.example.com/photos"
    for error, kind, said in (
        (botocore.EndpointConnectionError(endpoint_url=url), MountUnavailable, "'photos'"),
        (botocore.ReadTimeoutError(endpoint_url=url), DeadlineExceeded, "in time"),
        (botocore.NoCredentialsError(), MountUnavailable, "AWS_ACCESS_KEY_ID"),
        (botocore.NoRegionError(), MountUnavailable, "write 'region'"),
        (RuntimeError(url), MountUnavailable, "(RuntimeError)"),
    ):
        found = storage_error(error, "photos", "s3:GetObject", is_object=True)
        assert isinstance(found, kind)
        assert said in str(found)
        assert "geheim" not in str(found)


def test_a_failure_of_the_connection_counts_by_its_cause() -> None:
    error = botocore.HTTPClientError(error="x")
    error.__cause__ = botocore.ReadTimeoutError(endpoint_url="https://h")
    found = storage_error(error, "photos", "s3:GetObject", is_object=True)
    assert isinstance(found, DeadlineExceeded)
    error.__cause__ = ConnectionResetError()
    found = storage_error(error, "photos", "s3:GetObject", is_object=True)
    assert "cannot be reached (ConnectionResetError)" in str(found)
