from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
    ResourceUnreadable,
)
from resource_server.provider import ByteSize, Path
from resource_server.providers.object_storage.provider import ObjectStorage
from resource_server.testing import check_provider
from tests.cases import for_each
from tests.providers.object_storage.faults import Answer, Asked, before, refused
from tests.providers.object_storage.moto_process import DEEP, MANY
from tests.providers.object_storage.storage import Storage, running
from tests.waiting import quiet_for, until

pytestmark = pytest.mark.anyio

TREE = {
    "a.txt": "one\ntwo\nthree\n",
    "empty.txt": "",
    "folder/über/x.md": "# x",
    "folder/b.bin": b"\x00\x01",
    "Case": "upper",
    "case": "lower",
    "caf\u00e9": "composed",
    "cafe\u0301": "decomposed",
    "100% + ? #.txt": "signs",
}
ODD = [
    "x//y.txt",
    "../e.txt",
    "a/./c.txt",
    "/lead.txt",
    "tab\there.txt",
    "x/../a.txt",
    "d\x7f",
    "m/",
]
WORDS = ("secret-words", "key-of-tests", "secret-of-tests", "Signature", "X-Amz")


HEAD = {"Content-Length": "9", "ETag": '"x"', "Last-Modified": "Fri, 27 Nov 2026 12:00:00 GMT"}
"""Headers of an object of nine bytes."""


async def names(provider: ObjectStorage, parent: Path = (), limit: int = 1000) -> list[str]:
    """Return the children of a collection, page after page; collections with a slash."""
    found: list[str] = []
    after: Path | None = None
    while True:
        page = await provider.list(parent, after=after, limit=limit)
        found += [each.path[-1] + "/" * (each.type == "collection") for each in page]
        if len(page) < limit:
            return found
        after = page[-1].path


async def text(provider: ObjectStorage, *path: str, **query: str) -> str | bytes:
    (content,) = await provider.read(path, query)
    return content.data


async def test_a_bucket_with_odd_keys_keeps_the_contract(storage: Storage) -> None:
    bucket = storage.bucket({**TREE, **dict.fromkeys(ODD, "odd"), "folder": "shadowed", "z/1": "1"})
    await check_provider(storage.provider(bucket))


async def test_keys_that_are_no_paths_do_not_exist_and_hide_no_others(storage: Storage) -> None:
    bucket = storage.bucket({**TREE, **dict.fromkeys(ODD, "odd")})
    async with storage.provider(bucket) as provider:
        assert set(await names(provider)) == {
            *(key for key in TREE if "/" not in key), "folder/", "a/", "x/", "m/"
        }  # fmt: skip
        assert await names(provider, ("x",)) == []
        for key in ODD:
            with pytest.raises(ResourceNotFound):
                await provider.read(tuple(key.split("/")), {})
            with pytest.raises(ResourceNotFound):
                await provider.metadata((key,))


async def test_names_are_exact_in_case_and_normalisation(storage: Storage) -> None:
    bucket = storage.bucket(TREE)
    async with storage.provider(bucket) as provider:
        for key, data in TREE.items():
            found = await text(provider, *key.split("/"))
            assert found == data, key
        for absent in ("CASE", "A.txt", "folder/Über/x.md", "100%25 + ? #.txt", "a.txt/"):
            with pytest.raises(ResourceNotFound):
                await provider.metadata(tuple(absent.split("/")))


MARKS = "-" * 20


async def test_every_page_size_lists_the_same_children_in_the_order_of_names(
    storage: Storage,
) -> None:
    keys = ["a", "a!", "a-b", "a/1", "a/2", "a0", "a0/x", "b/1", "b", "c-", "c/", "c/d", "ä", "ä/x"]
    keys += [f"z{MARKS}", f"z{MARKS}!", f"z{MARKS}/1", "z-.-!/1"]
    bucket = storage.bucket(dict.fromkeys(keys, "x"))
    expected = [
        "a/",
        "a!",
        "a-b",
        "a0/",
        "b/",
        "c/",
        "c-",
        f"z{MARKS}!",
        f"z{MARKS}/",
        "z-.-!/",
        "ä/",
    ]
    async with storage.provider(bucket) as provider:
        for limit in range(1, 10):
            assert await names(provider, limit=limit) == expected, limit
        for limit in range(1, 10):  # a replica that has listed nothing before
            async with storage.provider(bucket) as other:
                found: list[str] = []
                after: Path | None = None
                while page := await other.list((), after=after, limit=limit):
                    found += [each.path[-1] for each in page]
                    after = page[-1].path
                assert found == [each.removesuffix("/") for each in expected], limit


async def test_no_child_that_is_there_is_missing_if_another_becomes_a_collection_meanwhile(
    storage: Storage,
) -> None:
    lasting = ("a!", "a-b", "a-!b", "a.", "a0", "b!/1", "é!", "é-!")
    changes = (("a", "a/x"), ("a/x", "a"), ("a-!", "a-!/x"), ("b/x", "a"), ("é-", "é-/x"))
    bucket = storage.bucket()
    # The second one is as another replica, or the first after a restart.
    async with storage.provider(bucket) as first, storage.provider(bucket) as second:
        for number, (old, new) in enumerate(changes):
            for limit, other in itertools.product((1, 2, 3, 5), (first, second)):
                top = f"{number}-{limit}-{other is first}"
                for key in (*lasting, old):
                    storage.put(bucket, f"{top}/{key}", "x")
                page = await first.list((top,), after=None, limit=limit)
                found = list(page)
                storage.put(bucket, f"{top}/{new}", "x")
                storage.delete(bucket, f"{top}/{old}")
                while len(page) == limit:
                    page = await other.list((top,), after=page[-1].path, limit=limit)
                    found += page
                missing = {key.partition("/")[0] for key in lasting} - {e.path[-1] for e in found}
                assert not missing, (old, new, limit, other is first)


async def test_a_key_of_many_marks_makes_no_page_take_many_requests(storage: Storage) -> None:
    bucket = storage.bucket({"!" * 1000 + end: "x" for end in ("", "!", "0")})
    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            proxy.asked.clear()
            await provider.list((), after=None, limit=1)
            assert len(proxy.asked) < 40


async def test_a_collection_that_the_service_repeats_is_listed_once(storage: Storage) -> None:
    bucket = storage.bucket({"a/1": "x", "b": "x"})

    def repeat(asked: Asked, answer: Answer) -> Answer:
        again = b"<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes></ListBucketResult>"
        if "start-after" in asked.query and b"<Prefix>a/" not in answer.body:
            answer.body = answer.body.replace(b"</ListBucketResult>", again)
        return answer

    with before(storage.endpoint) as proxy:
        proxy.change = repeat
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            assert await names(provider, limit=1) == ["a/", "b"]


async def test_where_an_object_has_the_name_of_a_collection_the_collection_wins(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"a": "an object", "a/x": "x"})
    async with storage.provider(bucket) as provider:
        assert (await provider.metadata(("a",))).type == "collection"
        with pytest.raises(ResourceNotFound):
            await provider.read(("a",), {})
        assert await names(provider, ("a",)) == ["x"]
    async with storage.provider(bucket, exclude=("a/",)) as provider:
        assert await text(provider, "a") == "an object"
        assert await names(provider) == ["a"]


@pytest.mark.guarantee("one-bucket")
async def test_only_what_is_below_the_prefix_is_served(storage: Storage) -> None:
    other = storage.bucket({"x.txt": "of another bucket"})
    bucket = storage.bucket({"in/a.txt": "in", "in-side.txt": "beside", "out.txt": "out"})
    async with storage.provider(bucket, "in") as provider:
        assert await names(provider) == ["a.txt"]
        for path in (("..", "out.txt"), ("out.txt",), ("..", "..", other, "x.txt"), (other,)):
            with pytest.raises(ResourceNotFound):
                await provider.read(path, {})


@pytest.mark.guarantee("secrets-stay-hidden")
async def test_what_the_rules_hide_does_not_exist(storage: Storage) -> None:
    keys = ["a.md", "b.txt", ".env", ".aws/credentials", "id_rsa", "drafts/a.md", "docs/c.md"]
    bucket = storage.bucket(dict.fromkeys(keys, "x"))
    async with storage.provider(bucket) as provider:
        assert await names(provider) == ["a.md", "b.txt", "docs/", "drafts/"]
        for path in ((".env",), (".aws", "credentials"), ("id_rsa",), (".aws",)):
            with pytest.raises(ResourceNotFound):
                await provider.read(path, {})
            with pytest.raises(ResourceNotFound):
                await provider.list(path, after=None, limit=1)
    options: Any = {"include": ("*.md",), "exclude": ("drafts/",)}
    async with storage.provider(bucket, **options) as provider:
        assert await names(provider) == ["a.md", "docs/"]
        assert await names(provider, ("docs",)) == ["c.md"]
        with pytest.raises(ResourceNotFound):
            await provider.read(("drafts", "a.md"), {})


async def test_ranges_are_those_of_files(storage: Storage) -> None:
    lines = "".join(f"line {number}\n" for number in range(1, 200_001))
    bucket = storage.bucket({"long.txt": lines, "empty.txt": "", "b.bin": b"\x00" * 300_000})
    async with storage.provider(bucket, max_size=ByteSize(1024**2)) as provider:
        with pytest.raises(ResourceTooLarge):
            await provider.read(("long.txt",), {})
        assert await text(provider, "long.txt", lines="2-3") == "line 2\nline 3\n"
        assert await text(provider, "long.txt", lines="150000-150000") == "line 150000\n"
        assert await text(provider, "long.txt", tail="2") == "line 199999\nline 200000\n"
        assert await text(provider, "long.txt", bytes="0-5") == "line 1"
        assert await text(provider, "b.bin", bytes="299999-") == b"\x00"
        assert await text(provider, "empty.txt", lines="1-") == ""
        assert await text(provider, "empty.txt", bytes="5-9") == ""
        for query in ({"lines": "x"}, {"format": "markdown"}, {"lines": "1-", "tail": "1"}):
            with pytest.raises(InvalidParameter):
                await provider.read(("long.txt",), query)


async def test_a_document_is_never_a_mixture_of_two_objects(storage: Storage) -> None:
    first, second = b"a" * 2_000_000, b"b" * 2_000_000
    bucket = storage.bucket({"x.txt": first})
    left = [second]

    def replace(asked: Asked) -> None:
        if asked.is_range and "if-match" in asked.headers and left:
            storage.put(bucket, "x.txt", left.pop())

    with before(storage.endpoint) as proxy:
        proxy.fault = replace
        provider = ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint)
        async with provider:
            resource, (content,) = await provider.fetch(("x.txt",), {"bytes": "0-1999999"})
            assert content.data == second.decode()
            assert resource.version == (await provider.metadata(("x.txt",))).version


async def test_a_service_that_heeds_no_condition_is_found_out(storage: Storage) -> None:
    bucket = storage.bucket({"x.txt": b"a" * 2_000_000})

    def other(asked: Asked, answer: Answer) -> Answer:
        if "if-match" in asked.headers:
            answer.headers = {**answer.headers, "ETag": '"another"'}
        return answer

    with before(storage.endpoint) as proxy:
        proxy.change = other
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            with pytest.raises(ResourceBusy):
                await provider.read(("x.txt",), {"bytes": "0-"})


async def test_many_objects_are_listed_a_page_at_a_time(storage: Storage) -> None:
    async with storage.provider("many") as provider:
        first = await provider.list((), after=None, limit=1000)
        assert [each.path[-1] for each in first] == [f"{n:05}.txt" for n in range(1000)]
        last = await provider.list((), after=(f"{MANY - 3:05}.txt",), limit=10)
        assert [each.path[-1] for each in last] == [f"{MANY - 2:05}.txt", f"{MANY - 1:05}.txt"]
    async with storage.provider("deep") as provider:
        found = await provider.list((), after=("0050",), limit=1000)
        assert [each.path[-1] for each in found] == [f"{n:04}" for n in range(51, DEEP // 10)]


@pytest.mark.deep
async def test_tens_of_thousands_of_objects_are_listed_in_order(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(30_000, 10) as large:
        async with large.provider("many") as provider:
            found = await names(provider, limit=1000)
            assert found == [f"{n:05}.txt" for n in range(30_000)]


# -- faults

ERRORS: Sequence[tuple[int, str, type[Exception], str]] = (
    (403, "AccessDenied", ResourceUnreadable, "refuses"),
    (403, "InvalidObjectState", ResourceUnreadable, "archived"),
    (404, "NoSuchKey", ResourceNotFound, ""),
    (404, "NoSuchBucket", MountUnavailable, "does not exist"),
    (400, "ExpiredToken", MountUnavailable, "expired"),
    (403, "InvalidAccessKeyId", MountUnavailable, "not known"),
    (403, "SignatureDoesNotMatch", MountUnavailable, "secret key"),
    (403, "RequestTimeTooSkewed", MountUnavailable, "clock"),
    (503, "SlowDown", ResourceBusy, "try again"),
    (429, "TooManyRequests", ResourceBusy, "try again"),
    (500, "InternalError", ResourceBusy, "try again"),
    (301, "PermanentRedirect", MountUnavailable, "'region'"),
    (307, "TemporaryRedirect", MountUnavailable, "'endpoint'"),
    (418, "Nonsense", MountUnavailable, "Nonsense"),
    (200, "", MountUnavailable, "otherwise than S3"),
)


async def failure(call: Callable[[], Any]) -> Exception:
    """Return the exception of a call, whose words are for people."""
    with pytest.raises(Exception) as raised:  # noqa: PT011  each caller says which
        await call()
    said = str(raised.value)
    assert not any(word in said for word in (*WORDS, "http")), said
    return raised.value


@pytest.mark.guarantee("one-bucket")
@for_each("status, code, expected, words", ERRORS)
async def test_every_refusal_of_the_service_is_an_error_in_words(
    storage: Storage, status: int, code: str, expected: type[Exception], words: str
) -> None:
    bucket = storage.bucket({"x.txt": "x"})
    answer = refused(status, code) if code else Answer(200, b"<no xml")
    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            await provider.metadata(("x.txt",))
            proxy.fault = lambda asked: answer if asked.method == "GET" else None
            error = await failure(lambda: provider.read(("x.txt",), {}))
            assert isinstance(error, expected)
            assert words in str(error)


@pytest.mark.parametrize("page", [b"", b"<html><body>Sign in</body></html>"])
async def test_what_is_no_listing_is_no_empty_bucket(storage: Storage, page: bytes) -> None:
    with before(storage.endpoint) as proxy:
        path = f"s3://{storage.bucket()}"
        async with ObjectStorage(path=path, endpoint=proxy.endpoint) as provider:
            assert await names(provider) == []
            proxy.fault = lambda _: Answer(200, page)
            with pytest.raises(MountUnavailable, match="correct 'endpoint'"):
                await names(provider)


async def test_an_object_in_the_place_of_a_collection_is_read(storage: Storage) -> None:
    bucket = storage.bucket({"a/x": "below"})
    async with storage.provider(bucket) as provider:
        assert await names(provider) == ["a/"]
        storage.delete(bucket, "a/x")
        storage.put(bucket, "a", "instead")
        assert await text(provider, "a") == "instead"


async def test_a_listing_that_is_refused_says_what_to_grant(storage: Storage) -> None:
    with before(storage.endpoint) as proxy:
        bucket = storage.bucket()
        proxy.fault = lambda _: refused(403, "AccessDenied")
        error = await failure(
            ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint).__aenter__
        )
        assert isinstance(error, MountUnavailable)
        assert bucket in str(error)
        assert "s3:ListBucket" in str(error)


async def test_credentials_that_have_expired_are_looked_for_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource_server.buckets.bucket._RENEWAL_S", 0.0)
    bucket = storage.bucket({"x.txt": "x"})

    def refuse(asked: Asked) -> Answer | None:
        is_old = "key-of-tests" in asked.headers["authorization"]
        return refused(400, "ExpiredToken") if is_old else None

    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            proxy.fault = refuse
            error = await failure(lambda: provider.read(("x.txt",), {}))
            assert "expired" in str(error)
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "renewed")
            assert await text(provider, "x.txt") == "x"


@pytest.mark.guarantee("one-bucket")
async def test_no_redirect_leads_to_another_host(storage: Storage) -> None:
    bucket = storage.bucket({"x.txt": "x"})
    with before(storage.endpoint) as proxy, before(storage.endpoint) as elsewhere:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            for status in (301, 302, 303, 307, 308):
                place = {"Location": f"{elsewhere.endpoint}/{bucket}/x.txt"}
                proxy.fault = lambda _, s=status, p=place: Answer(s, b"", p)
                error = await failure(lambda: provider.read(("x.txt",), {}))
                assert isinstance(error, MountUnavailable)
            assert elsewhere.asked == []


async def test_an_answer_that_is_cut_is_no_shorter_document(storage: Storage) -> None:
    bucket = storage.bucket({"x.txt": "x" * 10_000})

    def cut(asked: Asked, answer: Answer) -> Answer:
        if asked.method == "GET" and not asked.is_listing:
            answer.headers = {**answer.headers, "Content-Length": str(len(answer.body))}
            answer.cut_at = 5000
        return answer

    with before(storage.endpoint) as proxy:
        proxy.change = cut
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            for query in ({}, {"lines": "1-"}):
                error = await failure(lambda q=query: provider.read(("x.txt",), q))
                assert isinstance(error, DeadlineExceeded)


async def test_a_service_that_hangs_occupies_sixteen_threads_however_many_calls_it_gets(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"x.txt": "x"})
    go_on = threading.Event()
    hanging = Answer(200, b"x", dict(HEAD), cut_at=1, wait=go_on)
    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            await provider.metadata(("x.txt",))
            proxy.fault = lambda _: hanging
            begun = len(proxy.asked)
            try:
                calls = asyncio.gather(
                    *(failure(lambda: provider.read(("x.txt",), {})) for _ in range(60))
                )
                await until(lambda: len(proxy.asked) - begun >= 16)
                await quiet_for(0.2)
                assert len(proxy.asked) - begun == 16
            finally:
                go_on.set()
            assert {type(each) for each in await calls} == {DeadlineExceeded}


async def test_without_a_service_or_credentials_the_mount_says_what_to_do(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = ObjectStorage(path="s3://some-bucket", endpoint="http://127.0.0.1:9")
    assert "cannot be reached" in str(await failure(nobody.__aenter__))
    unknown = ObjectStorage(path="s3://some-bucket", endpoint="http://no-such-host.invalid")
    assert "not known" in str(await failure(unknown.__aenter__))
    bucket = storage.bucket()
    assert "profile" in str(await failure(storage.provider(bucket, profile="nobody").__aenter__))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    error = await failure(storage.provider(bucket).__aenter__)
    assert "AWS_ACCESS_KEY_ID" in str(error)
    async with storage.provider(bucket, anonymous=True) as provider:
        assert await names(provider) == []


async def test_a_host_that_leads_to_the_metadata_of_a_machine_is_refused(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(0, 0, 0, "", ("169.254.169.254", 80))]

    def resolve(*_: object) -> object:
        return found

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    provider = ObjectStorage(path="s3://some-bucket", endpoint="http://storage.example.com")
    error = await failure(provider.__aenter__)
    assert "link-local" in str(error)


async def test_a_bucket_that_vanishes_is_an_error_and_one_that_comes_back_is_served(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"a/x.txt": "x"})
    async with storage.provider(bucket) as provider:
        assert await names(provider) == ["a/"]
        storage.delete(bucket, "a/x.txt")
        storage.client.delete_bucket(Bucket=bucket)
        for call in (
            lambda: provider.list((), after=None, limit=10),
            lambda: provider.read(("a", "x.txt"), {}),
        ):
            error = await failure(call)
            assert isinstance(error, MountUnavailable)
            assert "does not exist" in str(error)
        storage.client.create_bucket(Bucket=bucket)
        storage.put(bucket, "b.txt", "b")
        assert await names(provider) == ["b.txt"]
