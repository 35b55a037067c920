"""The skills of a folder, as its provider lists them; every digest is compared with a read."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from resource_server.access import Access
from resource_server.errors import ResourceNotFound
from resource_server.provider import ByteSize, Resource, Skill
from resource_server.provider import Path as Address
from resource_server.provider.search import SearchRequest
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.providers.filesystem.skills.skill_index import MAX_FILES, MAX_SKILL_BYTES
from resource_server.runtime.eager import settle
from resource_server.runtime.server_key import process_key
from resource_server.testing import check_provider
from tests.providers.filesystem.trees import address, all_listed, from_manifest
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def skill_md(name: str, more: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: About {name}\n{more}---\n# {name}\n".encode()


def make(top: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return top


async def listed(provider: Filesystem, at_once: int = 100) -> list[Skill]:
    found: list[Skill] = []
    after: Address | None = None
    while True:
        page = await settle(provider.list_skills(after=after, limit=at_once))
        found += page
        if len(page) < at_once:
            return found
        after = page[-1].path


def places(skills: list[Skill]) -> list[str]:
    return ["/".join(skill.path[:-1]) for skill in skills]


def files_of(skill: Skill) -> list[str]:
    assert skill.files is not None
    return ["/".join(file.path[len(skill.path) - 1 :]) for file in skill.files]


async def verify(provider: Filesystem, skill: Skill) -> None:
    """Read every file as a client does, and compare it with its digest."""
    assert skill.files is not None
    for file in skill.files:
        [content] = await settle(provider.read(file.path, {}))
        data = content.data.encode() if isinstance(content.data, str) else content.data
        assert (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}") == (file.size, file.digest)


async def problems(provider: Filesystem) -> dict[str, str]:
    """Return what `check` says of skills, by directory."""
    parts = [
        text.partition("/SKILL.md is not served as a skill: ")
        for _, text in await settle(provider.warnings())
    ]
    return {place: problem for place, said, problem in parts if said}


async def test_each_valid_skill_is_listed_in_order_and_invalid_ones_are_left_out(
    tmp_path: Path,
) -> None:
    root = make(
        tmp_path,
        {
            "b/tea/SKILL.md": skill_md("tea"),
            "b/tea/references/black.md": b"black\n",
            "b/tea/inner/SKILL.md": skill_md("inner"),
            "b/SKILL.md": b"no frontmatter",
            "a/SKILL.md": skill_md("other"),
            "a/x/SKILL.md": skill_md("x", "metadata: {version: 1.0}\n"),
            "a/skill.md": skill_md("a"),
            "c/tea/SKILL.md": skill_md("tea"),
            "c/lower/skill.md": skill_md("lower"),
            "d/SKILL.md/file": b"",
        },
    )
    provider = Filesystem(path=root)
    found = await listed(provider)
    assert places(found) == ["b/tea", "b/tea/inner", "c/tea"]
    assert await listed(provider, 1) == found
    assert files_of(found[0]) == ["SKILL.md", "inner/SKILL.md", "references/black.md"]
    assert found[0].frontmatter == {"name": "tea", "description": "About tea"}
    for skill in found:
        assert await settle(provider.get_skill(skill.path)) == skill
        await verify(provider, skill)
    absent = ("a", "a/x", "b", "c/lower", "d", "e", "", "b/tea/references")
    for place in absent:
        with pytest.raises(ResourceNotFound):
            await settle(provider.get_skill((*address(place), "SKILL.md")))
    with pytest.raises(ResourceNotFound):
        await settle(provider.get_skill(address("b/tea/references/black.md")))
    assert await problems(provider) == {
        "a": "'name' is 'other'; it must be that of the directory",
        "a/x": "'metadata.version' must be text; put it into quotes",
        "b": "SKILL.md does not begin with a line '---'",
    }


HIDING = {
    "tea/.env": b"PASSWORD=1",
    "tea/.hidden/x.md": b"x",
    "tea/build/out.bin": b"x",
    "tea/key.pem": b"-----BEGIN PRIVATE KEY-----",
    "tea/drafts/x.md": b"x",
    "tea/secret/x.md": b"x",
    "gone/SKILL.md": skill_md("gone"),
}
SHOWN = {
    "tea/SKILL.md": skill_md("tea"),
    "tea/.gitignore": b"build\n",
    "tea/x.md": b"x",
    ".gitignore": b"gone\n",
}


async def test_hidden_files_are_in_no_list_and_no_digest(tmp_path: Path) -> None:
    def provider(top: Path) -> Filesystem:
        closed = DirectoryOptions(exposed=False)
        return Filesystem(path=top, exclude=("drafts/",), directories={"tea/secret": closed})

    plain = await listed(provider(make(tmp_path / "plain", SHOWN)))
    hiding = provider(make(tmp_path / "hiding", {**SHOWN, **HIDING}))
    [skill] = plain
    assert files_of(skill) == ["SKILL.md", "x.md"]
    assert await listed(hiding) == plain
    assert await problems(hiding) == {}
    with pytest.raises(ResourceNotFound):
        await settle(hiding.get_skill(("gone", "SKILL.md")))


async def test_a_caller_without_the_scopes_has_another_list(tmp_path: Path) -> None:
    root = make(
        tmp_path,
        {
            "tea/SKILL.md": skill_md("tea"),
            "tea/internal/x.md": b"x",
            "inner/staff/SKILL.md": skill_md("staff"),
        },
    )
    access = Access(scopes=("staff",))
    guarded = DirectoryOptions(access=access)
    provider = Filesystem(path=root, directories={"tea/internal": guarded, "inner": guarded})
    everybody, staff = provider.narrowed(frozenset()), provider.narrowed(frozenset({"staff"}))
    assert [files_of(each) for each in await listed(staff)] == [
        ["SKILL.md"],
        ["SKILL.md", "internal/x.md"],
    ]
    [skill] = await listed(everybody)
    assert files_of(skill) == ["SKILL.md"]
    with pytest.raises(ResourceNotFound):
        await settle(everybody.get_skill(address("inner/staff/SKILL.md")))


async def test_unlisted_skills_are_found_by_uri_alone_and_unreadable_files_never(
    tmp_path: Path,
) -> None:
    root = make(
        tmp_path,
        {
            "off/tea/SKILL.md": skill_md("tea"),
            "shut/tea/SKILL.md": skill_md("tea"),
            "part/SKILL.md": skill_md("part"),
            "part/unlisted/x.md": b"x",
            "part/unreadable/x.md": b"x",
        },
    )
    provider = Filesystem(
        path=root,
        directories={
            "off": DirectoryOptions(listed=False),
            "shut": DirectoryOptions(readable=False),
            "part/unlisted": DirectoryOptions(listed=False),
            "part/unreadable": DirectoryOptions(readable=False),
        },
    )
    [skill] = await listed(provider)
    assert files_of(skill) == ["SKILL.md", "unlisted/x.md"]
    unlisted = await settle(provider.get_skill(address("off/tea/SKILL.md")))
    assert files_of(unlisted) == ["SKILL.md"]
    shut = address("shut/tea/SKILL.md")
    with pytest.raises(ResourceNotFound):
        await settle(provider.get_skill(shut))
    entry = await settle(provider.metadata(shut))
    assert (entry.name, entry.description) == ("SKILL.md", None)
    assert await problems(provider) == {}


async def test_links_lead_into_a_skill_only_within_the_root(tmp_path: Path) -> None:
    make(tmp_path, {"outside.md": b"x", "outside/x.md": b"x"})
    root = make(tmp_path / "root", {"tea/SKILL.md": skill_md("tea"), "shared/x.md": b"shared"})
    (root / "tea/out.md").symlink_to(tmp_path / "outside.md")
    (root / "tea/up.md").symlink_to("../../outside.md")
    (root / "tea/out").symlink_to("../../outside")
    (root / "tea/in.md").symlink_to("../shared/x.md")
    (root / "tea/shared").symlink_to("../shared")
    (root / "tea/loop").symlink_to(".")
    (root / "green").symlink_to("tea")
    strict, following = Filesystem(path=root), Filesystem(path=root, symlinks="within-root")
    [skill] = await listed(strict)
    assert files_of(skill) == ["SKILL.md"]
    [skill] = await listed(following)
    assert files_of(skill) == ["SKILL.md", "in.md", "shared/x.md"]
    await verify(following, skill)
    assert await problems(following) == {
        "green": "'name' is 'tea'; it must be that of the directory"
    }


async def test_a_skill_in_the_folder_itself_has_the_name_of_its_uri(tmp_path: Path) -> None:
    provider = Filesystem(path=make(tmp_path, {"SKILL.md": skill_md("tea"), "x.md": b"x"}))
    assert await listed(provider) == []
    for base, names in (("skill://acme/tea", ["tea"]), ("skill://tea", ["tea"]), ("x://y", [])):

        def link(path: Address, query: Mapping[str, str] | None = None, base: str = base) -> str:
            return "/".join((base, *path))

        provider = Filesystem(path=tmp_path)
        provider.mounted(link, process_key())
        found = await listed(provider)
        assert [skill.frontmatter["name"] for skill in found] == names
        assert [files_of(skill) for skill in found] == [["SKILL.md", "x.md"]] * len(names)


async def test_reads_of_a_skill_return_the_bytes_of_its_digests(tmp_path: Path) -> None:
    texts = {
        "bom.md": b"\xef\xbb\xbfmarked\r\n",
        "utf16.txt": "\ufeffhällo".encode("utf-16-le"),
        "utf32.txt": "\ufeffhällo".encode("utf-32-be"),
        "latin.txt": "hällo".encode("latin-1"),
        "nul.txt": b"a\0b",
        "cr.txt": b"a\r\nb\rc\n",
        "picture.png": b"\x89PNG\r\n\x1a\n\0",
        "unknown": b"text",
        "empty": b"",
    }
    root = make(
        tmp_path,
        {
            "tea/SKILL.md": b"\xef\xbb\xbf" + skill_md("tea"),
            "SKILL.md": b"none",
            **{f"tea/{name}": data for name, data in texts.items()},
            **{f"other/{name}": data for name, data in texts.items()},
        },
    )
    for encoding in ("utf-8", "cp1252", "utf-16"):
        provider = Filesystem(path=root, encoding=encoding)
        [skill] = await listed(provider)
        await verify(provider, skill)
    [marked] = await settle(provider.read(address("tea/bom.md"), {}))
    assert marked.data == "\ufeffmarked\r\n"
    # Ranges, and what belongs to no skill, are text as before.
    [part] = await settle(provider.read(address("tea/bom.md"), {"lines": "1-1"}))
    [outside] = await settle(provider.read(address("other/bom.md"), {}))
    [off] = await settle(Filesystem(path=root, skills="off").read(address("tea/bom.md"), {}))
    assert {str(each.data) for each in (part, outside, off)} == {"marked\r\n"}


def resize(file: Path, size: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        stream.truncate(size)


async def test_a_skill_over_a_limit_is_not_served_and_one_at_the_limit_is(tmp_path: Path) -> None:
    def fill(name: str, count: int) -> None:
        make(tmp_path, {f"{name}/SKILL.md": skill_md(name)})
        make(tmp_path, {f"{name}/{number}.md": b"" for number in range(count - 1)})

    fill("many", MAX_FILES)
    fill("too-many", MAX_FILES + 1)
    for name, size in (("large", MAX_SKILL_BYTES), ("too-large", MAX_SKILL_BYTES + 1)):
        fill(name, 1)
        resize(tmp_path / name / "data.bin", size - len(skill_md(name)))
    fill("whole", 1)
    resize(tmp_path / "whole" / "data.bin", 12 * 1024 * 1024)
    fill("huge", 1)
    resize(tmp_path / "huge" / "data.bin", 10**13)
    provider = Filesystem(path=tmp_path, max_size=ByteSize(10**14))
    found = await listed(provider)
    assert places(found) == ["large", "many", "whole"]
    assert [len(skill.files or ()) for skill in found] == [2, MAX_FILES, 2]
    assert await problems(provider) == {
        "huge": "it has more than 16 MiB",
        "too-large": "it has more than 16 MiB",
        "too-many": "it has more than 512 files",
    }
    by_default = Filesystem(path=tmp_path)
    assert places(await listed(by_default)) == ["many"]
    assert "max_size" in (await problems(by_default))["whole"]


@pytest.mark.deep
async def test_a_skill_of_100000_files_costs_no_look_at_each(tmp_path: Path) -> None:
    make(tmp_path, {"tea/SKILL.md": skill_md("tea"), "small/SKILL.md": skill_md("small")})
    for number in range(100_000):
        os.close(os.open(tmp_path / f"tea/{number}", os.O_CREAT | os.O_WRONLY))
    deep = tmp_path / "deep"
    make(tmp_path, {"deep/SKILL.md": skill_md("deep")})
    for number in range(5000):
        (deep / f"{number}").mkdir()
    provider = Filesystem(path=tmp_path)
    assert places(await listed(provider)) == ["small"]
    assert await problems(provider) == {
        "deep": "it has more than 4,096 folders",
        "tea": "it has more than 512 files",
    }
    # The walk through the folder is reused, and the directory is known.
    began = time.process_time()
    for _ in range(10):
        await listed(provider)
    assert time.process_time() - began < 2


async def test_names_that_hosts_cannot_write_make_no_skill(tmp_path: Path) -> None:
    make(tmp_path, {"tea/SKILL.md": skill_md("tea"), "fine/SKILL.md": skill_md("fine")})
    make(tmp_path, {"fine/a%20b #?&+\n中文.md": b"x", "fine/%FF": b"x", "fine/-": b"x"})
    (tmp_path / os.fsdecode(b"tea/\xff")).write_bytes(b"x")
    provider = Filesystem(path=tmp_path)
    [skill] = await listed(provider)
    assert files_of(skill) == ["%FF", "-", "SKILL.md", "a%20b #?&+\n中文.md"]
    await verify(provider, skill)
    assert "UTF-8" in (await problems(provider))["tea"]


@contextmanager
def changing(change: object) -> Generator[None]:
    """Call a function again and again in a thread."""
    assert callable(change)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            change()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def test_a_digest_covers_what_was_read_of_a_file_that_grows(tmp_path: Path) -> None:
    make(tmp_path, {"tea/SKILL.md": skill_md("tea"), "tea/log": b"x" * 100_000})
    provider = Filesystem(path=tmp_path)

    def grow() -> None:
        with (tmp_path / "tea/log").open("ab") as file:
            file.write(b"x")

    with changing(grow):
        for _ in range(20):
            [skill] = await listed(provider)
            assert skill.files is not None
            log = skill.files[1]
            assert log.digest == f"sha256:{hashlib.sha256(b'x' * log.size).hexdigest()}"
    [skill] = await listed(provider)
    await verify(provider, skill)


async def test_the_frontmatter_and_the_digest_are_of_the_same_file(tmp_path: Path) -> None:
    versions = [skill_md("tea", f"number: {number}\n") for number in range(10)]
    by_digest = {
        f"sha256:{hashlib.sha256(data).hexdigest()}": number for number, data in enumerate(versions)
    }
    make(tmp_path, {"tea/SKILL.md": versions[0]})
    provider = Filesystem(path=tmp_path)
    counts = iter(range(10**9))

    def replace() -> None:
        (tmp_path / "new").write_bytes(versions[next(counts) % 10])
        (tmp_path / "new").replace(tmp_path / "tea/SKILL.md")

    seen = 0
    with changing(replace):
        for _ in range(200):
            for skill in await listed(provider):
                assert skill.files is not None
                assert by_digest[skill.files[0].digest] == skill.frontmatter["number"]
                seen += 1
    assert len(await listed(provider)) == 1
    assert seen


async def test_changes_are_seen_at_once_and_unchanged_files_are_digested_once(
    tmp_path: Path,
) -> None:
    make(tmp_path, {"tea/SKILL.md": skill_md("tea"), "tea/x.md": b"x"})
    provider = Filesystem(path=tmp_path)
    path = address("tea/x.md")
    deadline = time.monotonic() + PATIENCE_S
    while (known := provider.digests.get(path)) is None and time.monotonic() < deadline:
        await listed(provider)  # a file that has just changed is not cached
    assert known is not None
    await listed(provider)
    assert provider.digests.get(path) is known
    (tmp_path / "tea/x.md").write_bytes(b"y")
    make(tmp_path, {"tea/new.md": b"z", "coffee/SKILL.md": skill_md("coffee")})
    (tmp_path / "tea/SKILL.md").write_bytes(skill_md("tea", "more: yes\n"))
    found = await listed(provider)
    assert places(found) == ["coffee", "tea"]
    assert files_of(found[1]) == ["SKILL.md", "new.md", "x.md"]
    assert found[1].frontmatter["more"] == "yes"
    for skill in found:
        await verify(provider, skill)
    (tmp_path / "coffee/SKILL.md").unlink()
    assert places(await listed(provider)) == ["tea"]


async def test_a_skill_md_is_named_and_described_alike_everywhere(tmp_path: Path) -> None:
    root = make(
        tmp_path,
        {
            "tea/SKILL.md": skill_md("tea"),
            "bad/SKILL.md": b"---\nname: bad\ndescription: [no text]\n---\n",
            "fake/x-SKILL.md": skill_md("fake"),
        },
    )
    path = address("tea/SKILL.md")

    async def everywhere(provider: Filesystem) -> list[Resource]:
        request = SearchRequest(text="SKILL.md", where="names")
        page = await settle(
            provider.search(
                request, below=(), after=None, limit=10, deadline=time.monotonic() + PATIENCE_S
            )
        )
        walked = await all_listed(provider)
        children = await settle(provider.list(("tea",), after=None, limit=10))
        fetched, _ = await settle(provider.fetch(path, {}))
        metadata = await settle(provider.metadata(path))
        found = [*walked, *children, *(hit.resource for hit in page.hits), fetched, metadata]
        return [each for each in found if each.path[-1:] == ("SKILL.md",)]

    found = await everywhere(Filesystem(path=root))
    assert {(each.name, each.description) for each in found if each.path == path} == {
        ("tea", "About tea")
    }
    assert {(each.name, each.description) for each in found if each.path != path} == {
        ("SKILL.md", None)
    }
    assert len({each.version for each in found if each.path == path}) == 1
    off = await everywhere(Filesystem(path=root, skills="off"))
    assert {(each.name, each.description) for each in off} == {("SKILL.md", None)}


async def test_skills_are_switched_off(tmp_path: Path) -> None:
    root = make(tmp_path / "root", {"tea/SKILL.md": skill_md("tea"), "bad/SKILL.md": b""})
    assert places(await listed(from_manifest(root, {}))) == ["tea"]
    provider = from_manifest(root, {"skills": "off"})
    assert await listed(provider) == []
    assert await problems(provider) == {}
    with pytest.raises(ResourceNotFound):
        await settle(provider.get_skill(address("tea/SKILL.md")))


async def test_a_folder_of_skills_keeps_the_contract(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            "tea/SKILL.md": skill_md("tea"),
            "tea/bom.md": b"\xef\xbb\xbfmarked",
            "tea/empty": b"",
            "tea/中文/SKILL.md": skill_md("x"),
        },
    )
    await check_provider(Filesystem(path=tmp_path, watch="off"))
