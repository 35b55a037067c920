"""A configuration file of a host: read whole, and replaced atomically beside a backup."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import stat
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from resource_server.cli.hosts import folders
from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.json_edit import JsonConfig
from resource_server.cli.hosts.known_hosts import Place
from resource_server.cli.hosts.text_edit import CannotEdit, ConfigText, Edit, applied
from resource_server.cli.hosts.toml_edit import TomlConfig
from resource_server.cli.hosts.yaml_edit import YamlConfig

MAX_BYTES = 32 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


_FORMATS: dict[str, type[ConfigText]] = {".toml": TomlConfig, ".yaml": YamlConfig}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a file at one moment, and the edits of its servers."""

    path: pathlib.Path
    """Where links lead."""
    keys: tuple[str, ...]
    suffix: str
    """The ending that the host knows it by."""
    name: str
    """The path as messages have it."""
    home: pathlib.Path
    data: bytes | None
    """None if the file does not exist."""
    text: str

    def _content(self) -> ConfigText:
        return _FORMATS.get(self.suffix, JsonConfig)(self.text, self.keys)

    def entries(self) -> dict[str, object]:
        """Return the servers by name.

        Raises:
            CannotEdit: the file is invalid.
        """
        with _naming(self.name):
            return self._content().entries()

    def put(self, name: str, value: dict[str, object]) -> list[Edit]:
        """Return the edits that set a server."""
        with _naming(self.name):
            return self._content().put(name, value)

    def remove(self, name: str) -> list[Edit]:
        """Return the edits that remove a server."""
        with _naming(self.name):
            return self._content().remove(name)

    def write(self, edits: Sequence[Edit]) -> pathlib.Path | None:
        """Replace the file by its edited text; return the backup, None if there was no file.

        Raises:
            CannotEdit: it cannot be written, or was changed by somebody else meanwhile.
        """
        bom = _BOM if (self.data or b"").startswith(_BOM) else b""
        data = bom + applied(self.text, edits).encode()
        try:
            backup = self.back_up()
            self._replace(data)
        except OSError as error:
            reason = (error.strerror or "").lower()
            raise CannotEdit(f"{self.name}: cannot be written, {reason}") from None
        return backup

    def check(self) -> None:
        """Refuse what must not be replaced.

        Raises:
            CannotEdit: there is no home folder; the file is read-only, or has several names.
        """
        if self.data is None:
            if not self.home.is_dir():
                raise CannotEdit("the home folder does not exist; HOME names it")
            return
        status = self.path.stat()
        if not status.st_mode & 0o222:
            raise CannotEdit(f"{self.name}: read-only, so it stays as it is; --print has the entry")
        if status.st_nlink > 1:
            raise CannotEdit(f"{self.name}: has several hard links, of which one would be replaced")

    def back_up(self) -> pathlib.Path | None:
        """Copy the file beside it, and return the copy's path; an older copy is kept."""
        if self.data is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return None
        mode = stat.S_IMODE(self.path.stat().st_mode)
        for number in range(1, 1000):
            suffix = ".bak" if number == 1 else f".bak{number}"
            backup = self.path.with_name(self.path.name + suffix)
            with suppress(FileExistsError):
                descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(self.data)
                backup.chmod(mode)
                return backup
            if not backup.is_symlink() and backup.is_file() and backup.read_bytes() == self.data:
                return backup
        raise CannotEdit(f"{self.name}: has a thousand backups; remove some")

    def _replace(self, data: bytes) -> None:
        """Write a temporary file in the same folder, and move it over the file."""
        descriptor, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            self._take_over_rights(temporary)
            if self._is_changed():
                raise CannotEdit(f"{self.name}: was changed meanwhile; run the command again")
            pathlib.Path(temporary).replace(self.path)
        except BaseException:
            pathlib.Path(temporary).unlink(missing_ok=True)
            raise

    def _is_changed(self) -> bool:
        try:
            return _data(self.path) != self.data
        except ValueError:
            return True

    def _take_over_rights(self, temporary: str) -> None:
        if self.data is None:
            mask = os.umask(0o077)
            os.umask(mask)
            pathlib.Path(temporary).chmod(0o666 & ~mask)
            return
        status = self.path.stat()
        if hasattr(os, "chown"):
            os.chown(temporary, status.st_uid, status.st_gid)
        pathlib.Path(temporary).chmod(stat.S_IMODE(status.st_mode))


def blank(place: Place) -> ConfigFile:
    """Return an empty file, for the form of an entry."""
    path = place.file
    return ConfigFile(path, place.keys[-1:], path.suffix, path.name, path.parent, None, "")


def read(place: Place, here: Folders) -> ConfigFile:
    """Read a file, through links.

    Raises:
        CannotEdit: it is no file, too large, or not UTF-8.
    """
    name = folders.shown(place.file, here)
    try:
        path = pathlib.Path(os.path.realpath(place.file))
        data = _data(path)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise CannotEdit(f"{name}: cannot be read, {reason}") from None
    except ValueError as error:
        raise CannotEdit(f"{name}: {error}") from None
    try:
        text = (data or b"").removeprefix(_BOM).decode()
    except UnicodeDecodeError:
        raise CannotEdit(f"{name}: not UTF-8; save it as UTF-8 first") from None
    file = ConfigFile(path, place.keys, place.file.suffix, name, here.home, data, text)
    if place.newer_key is not None:
        newer = file.entries().get(place.newer_key)
        if isinstance(newer, dict) and "type" not in newer:
            return dataclasses.replace(file, keys=(*place.keys, place.newer_key))
    return file


def _data(path: pathlib.Path) -> bytes | None:
    """Return the content of a regular file; None if there is none.

    Raises:
        ValueError: it is no regular file, or too large.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise ValueError("a link that leads to itself")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a file")
    if status.st_size > MAX_BYTES:
        raise ValueError(f"over {MAX_BYTES // 2**20} MiB, no configuration")
    return path.read_bytes()


@contextmanager
def _naming(name: str) -> Generator[None]:
    """Put the name of the file before the reason."""
    try:
        yield
    except CannotEdit as error:
        raise CannotEdit(f"{name}: {error.message}") from None
