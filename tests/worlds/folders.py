"""Folders: visible files of every kind, and hidden ones for every reason that hides."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st

from resource_server.providers.filesystem.exposure.ignore_files import IGNORE_FILES
from tests.worlds.documents import DOCUMENTS


@dataclass(frozen=True)
class File:
    """A regular file."""

    path: str
    """Relative, with slashes; bytes that are not UTF-8 are lone surrogates."""
    data: bytes = b""
    times: int = 1
    """How often the file repeats the data."""


@dataclass(frozen=True)
class Directory:
    """A directory with these files, of which it may have many."""

    path: str
    files: tuple[File, ...] = ()
    """Paths relative to the directory."""
    many: int = 0
    """Number of further files, `0.txt`, `1.txt` and so on."""


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    path: str
    target: str


@dataclass(frozen=True)
class Special:
    """A named pipe or a socket."""

    path: str
    is_socket: bool = False


Node: TypeAlias = File | Directory | Link | Special


def put(root: Path, node: Node) -> None:
    """Make a node, with the directories above it."""
    path = root / node.path
    path.parent.mkdir(parents=True, exist_ok=True)
    match node:
        case File():
            path.write_bytes(node.data * node.times)
        case Directory():
            path.mkdir(exist_ok=True)
            for file in node.files:
                put(path, file)
            for number in range(node.many):
                (path / f"{number}.txt").write_text(f"secret {number}")
        case Link():
            path.symlink_to(node.target)
        case Special(is_socket=True):
            with socket.socket(socket.AF_UNIX) as made:
                # The address of a socket has at most 108 bytes, its name alone fits.
                here = os.open(path.parent, os.O_RDONLY)
                try:
                    made.bind(f"/proc/self/fd/{here}/{path.name}")
                finally:
                    os.close(here)
        case Special():
            os.mkfifo(path)


def take_away(root: Path, node: Node) -> None:
    """Remove a node with all below it, if it is there."""
    path = root / node.path
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- visible files

DIRECTORIES = ("", "docs", "docs/deep", "src", "\u00fcn\u00ef")
_NAMES = (
    "a.txt",
    "B.md",
    "notes.txt",
    "x y.txt",
    "100%.md",
    "\u00e4.txt",
    "\udcff.txt",
    "new\nline.txt",
    "~tilde",
    "q?#.txt",
    "semi;colon.csv",
    "data.bin",
)
CONTENTS = (
    (b"", 1),
    (b"apple\nbanana\n", 1),
    (b"\xef\xbb\xbfapple with a mark\n", 1),
    ("apple in UTF-16\n".encode("utf-16"), 1),
    (b"\x00\x01\xff binary", 1),
    (b"<html>apple</html>", 1),
    (b"apple line\n", 30_000),
)
"""Each with the number of its repetitions."""
_SKILL = "---\nname: {}\ndescription: secret {} of apples\n---\nEat apples.\n"
WORDS = ("apple", "a", "docs", "secret", "plan", "x", "docs/")
"""Words of names and contents, hidden or not."""


def _path(node: Node) -> str:
    return node.path


def _skill(name: str) -> bytes:
    return _SKILL.format(name, name).encode()


_SKILLS = tuple(File(f"{path}/SKILL.md", _skill(path[-4:])) for path in ("docs", "docs/deep"))
"""Skills, whose directories hold hidden files, too."""


def _file(directory: str, name: str, content: tuple[bytes, int]) -> File:
    return File(f"{directory}/{name}".lstrip("/"), *content)


def _document(directory: str, document: tuple[str, bytes]) -> File:
    name, data = document
    return File(f"{directory}/{name}".lstrip("/"), data)


visible_files = st.lists(
    st.one_of(
        st.builds(
            _file, st.sampled_from(DIRECTORIES), st.sampled_from(_NAMES), st.sampled_from(CONTENTS)
        ),
        st.builds(_document, st.sampled_from(DIRECTORIES), st.sampled_from(DOCUMENTS)),
    ),
    min_size=1,
    max_size=6,
    unique_by=_path,
).map(tuple)


# -- hidden files


@dataclass(frozen=True)
class Hiding:
    """One reason that hides files: options of the root, and where the files then lie."""

    name: str
    options: dict[str, Any]
    """Options of the root, merged with those of other reasons."""
    ignore: str = ""
    """A line of an ignore file in `docs`, with `docs` as the directory of hidden files."""
    paths: tuple[str, ...] = ()
    """Hidden paths, whatever is there."""
    files: tuple[str, ...] = ()
    """Hidden paths of files."""
    directories: tuple[str, ...] = ()
    """Hidden paths of directories."""
    nodes: Callable[[str], st.SearchStrategy[Node]] | None = None
    """Makes what is hidden for what it is, at any path."""
    only_without: str = ""
    """Scope whose absence hides."""


HIDINGS: tuple[Hiding, ...] = (
    Hiding("dot", {"hidden": False}, paths=(".dot", "docs/.dot", "src/.dot/x", ".docs")),
    Hiding(
        "secret",
        {},
        paths=("docs/key.pem", "id_rsa", "src/.env", "docs/.git"),
        files=("docs/credentials.json",),
    ),
    Hiding(
        "secret although dots are exposed",
        {"hidden": True},
        paths=(".env", "docs/.env.local", ".git"),
        directories=("docs/.ssh",),
    ),
    Hiding("ignored", {}, ignore="*.log", paths=("docs/x.log", "docs/deep/y.log", "docs/a.log")),
    Hiding("ignored directory", {}, ignore="/out/", directories=("docs/out",)),
    Hiding("ignored below", {}, ignore="deep/*.t?t", paths=("docs/deep/zz.txt", "docs/deep/y.tot")),
    Hiding("excluded", {"exclude": ["*.tmp"]}, paths=("a.tmp", "docs/b.tmp", "src/c.tmp")),
    Hiding("excluded directory", {"exclude": ["/priv/"]}, directories=("priv",)),
    Hiding(
        "not exposed",
        {"directories": {"docs/hush": {"exposed": False}}},
        directories=("docs/hush",),
    ),
    Hiding(
        "not included",
        {"include": ["*.txt", "*.md", "/src/"]},
        files=("docs/x.dat", "y.dat", "docs/deep/z.dat"),
    ),
    Hiding(
        "not included below",
        {"directories": {"docs": {"include": ["*.txt"]}}},
        files=("docs/x.dat", "docs/deep/z.dat"),
    ),
    Hiding(
        "other scope",
        {"directories": {"docs/hr": {"title": "People", "access": {"scopes": ["hr:read"]}}}},
        directories=("docs/hr",),
        only_without="hr:read",
    ),
    Hiding(
        "link",
        {"symlinks": "deny"},
        nodes=lambda path: st.builds(
            Link, st.just(path), st.sampled_from(("a.txt", "docs", "/etc/passwd", "nowhere", "."))
        ),
        paths=("link", "docs/link.txt", "src/to"),
    ),
    Hiding(
        "link outwards",
        {"symlinks": "within-root"},
        nodes=lambda path: st.builds(
            Link, st.just(path), st.sampled_from(("/etc/passwd", "nowhere", "../../..", ".env"))
        ),
        paths=("link", "docs/link.txt", "src/to"),
    ),
    Hiding(
        "special file",
        {},
        nodes=lambda path: st.builds(Special, st.just(path), st.booleans()),
        paths=("pipe", "docs/pipe.txt"),
    ),
)


@dataclass(frozen=True)
class HiddenNode:
    """A hidden path, and what is there in either world."""

    before: Node | None
    after: Node | None


@dataclass(frozen=True)
class FolderTwins:
    """Two folders that differ only in what is hidden."""

    visible: tuple[Node, ...]
    hidden: tuple[HiddenNode, ...]
    options: dict[str, Any]
    """Options of the root."""
    access: bool = False
    """Whether a second root needs a scope; both worlds differ in it, too."""

    def make(self, place: Path) -> None:
        """Make the first of both worlds, with ignore files that hide nothing until `hide`."""
        for node in self.visible:
            put(place / "root", File(node.path) if _is_ignore_file(node) else node)
        for each in self.hidden:
            for node in (each.before, each.after):
                if node is not None:
                    # Both worlds have the directory above, which is visible.
                    (place / "root" / node.path).parent.mkdir(parents=True, exist_ok=True)
            if each.before is not None:
                put(place / "root", each.before)
        if self.access:
            put(place, File("vault/plan.txt", b"secret plan"))

    def hide(self, place: Path) -> None:
        """Write the ignore files."""
        for node in filter(_is_ignore_file, self.visible):
            put(place / "root", node)

    def change(self, place: Path) -> None:
        """Change what is hidden: the folder becomes the other world."""
        for each in self.hidden:
            if each.before is not None:
                take_away(place / "root", each.before)
            if each.after is not None:
                put(place / "root", each.after)
        if self.access:
            put(place, File("vault/other.txt", b"secret other plan"))
            take_away(place, File("vault/plan.txt"))

    @property
    def roots(self) -> dict[str, Any]:
        """The `roots` of the manifest."""
        roots: dict[str, Any] = {"r": {"path": "root", **self.options}}
        if self.access:
            vault = {"path": "vault", "title": "Vault", "access": {"scopes": ["hr:read"]}}
            roots["vault"] = vault
        return roots

    @property
    def hidden_paths(self) -> Sequence[str]:
        """Every path that is hidden in one of the worlds, and paths below it."""
        found: dict[str, None] = {}
        for each in self.hidden:
            for node in (each.before, each.after):
                if node is not None:
                    found.setdefault(node.path)
                    if isinstance(node, Directory):
                        found.update(dict.fromkeys(f"{node.path}/{f.path}" for f in node.files))
        return list(found)


def _is_ignore_file(node: Node) -> bool:
    return Path(node.path).name in IGNORE_FILES


_hidden_contents = st.sampled_from(
    (
        (b"", 1),
        (b"secret apple\n", 1),
        (b"secret plan\n", 5),
        (b"\xffsecret", 1),
        (b"x ", 200_000),
        (_skill("out"), 1),
    )
)


def _hidden_file(path: str, content: tuple[bytes, int]) -> File:
    return File(path, *content)


def _nodes(hiding: Hiding, path: str) -> st.SearchStrategy[Node]:
    """Return what may be hidden at a path for this reason."""
    files = st.builds(_hidden_file, st.just(path), _hidden_contents)
    if path in hiding.files:
        return files
    directories = st.builds(
        Directory,
        st.just(path),
        st.lists(
            st.builds(
                _hidden_file,
                st.sampled_from(("in.txt", "sub/apple.txt", "z.md", "SKILL.md")),
                _hidden_contents,
            ),
            max_size=2,
            unique_by=_path,
        ).map(tuple),
        st.sampled_from((0, 0, 0, 3, 150)),
    )
    if path in hiding.directories:
        return directories
    links = st.builds(Link, st.just(path), st.sampled_from(("a.txt", "docs", "nowhere")))
    return st.one_of(files, directories, links, st.builds(Special, st.just(path)))


@st.composite
def folder_twins(draw: st.DrawFn) -> FolderTwins:
    """Generate two folders that differ in what a caller with a token may not see."""
    options: dict[str, Any] = {}
    ignore: list[str] = []
    places: list[tuple[Hiding, str]] = []
    for hiding in draw(st.lists(st.sampled_from(HIDINGS), min_size=1, max_size=9, unique_by=_name)):
        if _combine(options, hiding.options):
            ignore += [hiding.ignore] if hiding.ignore else []
            paths = (*hiding.paths, *hiding.files, *hiding.directories)
            places += [(hiding, path) for path in paths]
    hidden: list[HiddenNode] = []
    for hiding, path in draw(
        st.lists(st.sampled_from(places), min_size=1, max_size=12, unique_by=_place)
    ):
        nodes = hiding.nodes(path) if hiding.nodes else _nodes(hiding, path)
        either = st.one_of(nodes, st.none())
        hidden.append(HiddenNode(draw(either), draw(either)))
    visible: list[Node] = [*draw(visible_files), *draw(st.sampled_from(((), _SKILLS)))]
    if ignore:
        name = draw(st.sampled_from((".gitignore", ".ignore", ".mcpignore")))
        visible.append(File(f"docs/{name}", "\n".join(ignore).encode()))
    names = {node.path for each in hidden for node in (each.before, each.after) if node}
    hidden = [each for each in hidden if not _is_below_another(each, names)]
    visible = [node for node in visible if node.path not in names]
    docs = draw(st.sampled_from(({}, {}, {"readable": False}, {"listed": False}, {"title": "D"})))
    if docs and "docs" not in options.get("directories", {}):
        options = {**options, "directories": {**options.get("directories", {}), "docs": docs}}
    return FolderTwins(
        tuple(visible), tuple(hidden), options, draw(st.sampled_from((True, True, False)))
    )


def _name(hiding: Hiding) -> str:
    return hiding.name


def _place(place: tuple[Hiding, str]) -> str:
    return place[1]


def _is_below_another(each: HiddenNode, paths: set[str]) -> bool:
    some = each.before or each.after
    return some is None or any(some.path.startswith(f"{path}/") for path in paths)


def _combine(options: dict[str, Any], others: dict[str, Any]) -> bool:
    """Add options to others unless they contradict each other."""
    for name, value in others.items():
        if name in options and name != "directories" and options[name] != value:
            return False
    for name, value in others.items():
        if name == "directories":
            options[name] = {**options.get(name, {}), **value}
        else:
            options[name] = value
    return True
