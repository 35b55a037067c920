"""Changes a folder at random: each line of input is a root, a seed and how many changes to make."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.waiting import block

_NAMES = ("a", "b", "c")
_FILES = ("x.txt", "y.txt", "z.log", ".env", ".hidden")
_FOLDERS = tuple(
    "/".join(parts)
    for parts in (
        *((one,) for one in _NAMES),
        *((one, two) for one in _NAMES for two in _NAMES),
        *((one, two, "d") for one in _NAMES for two in _NAMES),
    )
)
PATHS = (
    "",
    *_FOLDERS,
    *_FILES,
    *(f"{folder}/{name}" for folder in _FOLDERS for name in _FILES),
)
"""All that there may ever be."""
_RULES = ("", "# nothing\n", "*.log\n", "x.txt\n", "b/\n", "/a/b/\n", "*\n!x.txt\n", "d\n")


class Changes:
    """Random changes below one root. What cannot be done is not done."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._dice = random.Random(seed)  # noqa: S311
        self._outside = root.parent / f"{root.name}-outside"
        self._outside.mkdir(exist_ok=True)
        self._kinds: list[tuple[int, Callable[[], str]]] = [
            (20, self.write),
            (8, self.append),
            (10, self.save),
            (4, self.save_with_backup),
            (4, self.touch),
            (8, self.make_many),
            (6, self.remove),
            (4, self.remove_tree),
            (5, self.move_file),
            (6, self.move_folder),
            (3, self.swap_folders),
            (2, self.replace_folder),
            (2, self.turn_into_file),
            (3, self.move_out),
            (3, self.move_in),
            (4, self.link),
            (7, self.ignore),
            (2, self.noise),
        ]

    def run(self, count: int) -> None:
        """Make so many changes; print each."""
        weights = [weight for weight, _ in self._kinds]
        for _ in range(count):
            (_, change) = self._dice.choices(self._kinds, weights)[0]
            with suppress(OSError, shutil.Error):
                print(change(), flush=True)  # noqa: T201
            if self._dice.random() < 0.3:
                block(self._dice.choice((0.0005, 0.002, 0.01, 0.03)))

    def _folder(self) -> Path:
        """Return one that is there."""
        some = [folder for folder in ("", *_FOLDERS) if (self._root / folder).is_dir()]
        return self._root / self._dice.choice(some or [""])

    def _file(self) -> Path:
        return self._folder() / self._dice.choice(_FILES)

    def _place(self) -> Path:
        return self._root / self._dice.choice(_FOLDERS)

    def _text(self) -> str:
        return "x" * self._dice.randrange(1, 20)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    # -- files

    def write(self) -> str:
        path = self._file()
        path.write_text(self._text())
        return f"write {self._name(path)}"

    def append(self) -> str:
        path = self._file()
        with path.open("a") as file:
            for _ in range(self._dice.choice((1, 1, 5))):
                file.write(self._text())
                file.flush()
                if self._dice.random() < 0.2:
                    block(0.005)
        return f"append {self._name(path)}"

    def save(self) -> str:
        path = self._file()
        beside = path.with_name(self._dice.choice((".tmp", "tmp")))
        beside.write_text(self._text())
        beside.replace(path)
        return f"save {self._name(path)}"

    def save_with_backup(self) -> str:
        path = self._file()
        backup = path.with_name(f"{path.name}~")
        path.rename(backup)
        path.write_text(self._text())
        backup.unlink()
        return f"save with backup {self._name(path)}"

    def touch(self) -> str:
        path = self._file()
        path.touch()
        return f"touch {self._name(path)}"

    def remove(self) -> str:
        path = self._file()
        path.unlink()
        return f"remove {self._name(path)}"

    def move_file(self) -> str:
        path, to = self._file(), self._file()
        path.rename(to)
        return f"move {self._name(path)} {self._name(to)}"

    # -- folders

    def make_many(self) -> str:
        folder = self._place()
        folder.mkdir(parents=True, exist_ok=True)
        for name in self._dice.sample(_FILES, 2):
            (folder / name).write_text(self._text())
        return f"make {self._name(folder)}"

    def remove_tree(self) -> str:
        folder = self._place()
        shutil.rmtree(folder)
        return f"remove tree {self._name(folder)}"

    def move_folder(self) -> str:
        folder, to = self._place(), self._place()
        folder.rename(to)
        return f"move folder {self._name(folder)} {self._name(to)}"

    def swap_folders(self) -> str:
        one, other, between = self._place(), self._place(), self._root / "between"
        if not other.is_dir() or one in other.parents or other in one.parents or one == other:
            raise FileNotFoundError
        one.rename(between)
        other.rename(one)
        between.rename(other)
        return f"swap {self._name(one)} {self._name(other)}"

    def replace_folder(self) -> str:
        folder = self._place()
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / self._dice.choice(_FILES)).write_text(self._text())
        return f"replace folder {self._name(folder)}"

    def turn_into_file(self) -> str:
        folder = self._place()
        shutil.rmtree(folder)
        folder.write_text(self._text())
        if self._dice.random() < 0.7:
            folder.unlink()
            folder.mkdir()
        return f"turn into file {self._name(folder)}"

    def move_out(self) -> str:
        folder = self._place()
        folder.rename(self._outside / str(self._dice.randrange(5)))
        return f"move out {self._name(folder)}"

    def move_in(self) -> str:
        to = self._place()
        some = sorted(self._outside.iterdir())
        if not some or to.exists():
            raise FileNotFoundError
        folder = self._dice.choice(some)
        (folder / "x.txt").write_text(self._text())
        folder.rename(to)
        return f"move in {self._name(to)}"

    # -- noise, and what decides what is shown

    def link(self) -> str:
        path = self._folder() / self._dice.choice(("link", "x.txt", "b"))
        # Nothing outside the folders of this test: what follows may write through the link.
        away = str(self._outside)
        target = self._dice.choice(("x.txt", "b", "../a", "a/x.txt", away, "."))
        if path.is_symlink():
            path.unlink()
        if self._dice.random() < 0.6:
            path.symlink_to(target)
        return f"link {self._name(path)} {target}"

    def ignore(self) -> str:
        path = self._folder() / self._dice.choice((".gitignore", ".gitignore", ".ignore"))
        rules = self._dice.choice(_RULES)
        how = self._dice.choice(("in place", "replaced", "removed"))
        if how == "removed":
            path.unlink()
        elif how == "replaced":
            beside = path.with_name(".gitignore.tmp")
            beside.write_text(rules)
            beside.replace(path)
        else:
            path.write_text(rules)
        return f"ignore {how} {self._name(path)} {rules!r}"

    def noise(self) -> str:
        path = self._file()
        path.chmod(self._dice.choice((0o600, 0o644)))
        path.read_bytes()
        os.listdir(path.parent)  # noqa: PTH208
        return f"noise {self._name(path)}"


def main() -> None:
    for line in sys.stdin:
        root, seed, count = line.split()
        Changes(Path(root), int(seed)).run(int(count))
        print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
