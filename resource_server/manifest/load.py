"""Loading and validation of a manifest file.

Loading opens no connection and walks no folder. A provider's options are validated if its class is
known; the caller decides which code may run to find the class.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import structs

from resource_server import uris
from resource_server.buckets.location import is_object_url
from resource_server.errors import ManifestError
from resource_server.manifest import environment, provider_references, yaml_reader
from resource_server.manifest.audit import Audit, AuditFileOptions
from resource_server.manifest.audit_place import place_that_serves
from resource_server.manifest.data import NOWHERE, DataPath, Positions, Problems, dotted, is_mapping
from resource_server.manifest.databases.database_url import (
    DatabaseUrl,
    is_database_url,
    parse_database_url,
    resolve_database_url,
)
from resource_server.manifest.decode import Decoder, FindClass
from resource_server.manifest.http import Http
from resource_server.manifest.model import (
    ClientFolders,
    KeyFile,
    Manifest,
    MountOptions,
    MountSpec,
    ServerOptions,
    Tools,
)
from resource_server.manifest.prompt_problems import PromptProblems
from resource_server.manifest.prompts import Prompt
from resource_server.manifest.typed_options import Option, options_of
from resource_server.manifest.wording import one_line, printable, unknown_name

VERSION = 1
MAPPING = "manifest"
"""The place of problems in a manifest that a program has made."""
MOUNT_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
DATABASE_NAME = r"[a-z0-9_-]{1,64}"
SECTIONS = (
    "version",
    "server",
    "roots",
    "databases",
    "providers",
    "tools",
    "prompts",
    "http",
    "audit",
)
MOUNTS = {"roots": "filesystem", "databases": "database", "providers": None}
"""Sections of mounts, each with its provider; None if each mount names its own."""
_PLAIN_NAME = "a name starts with a letter or digit and continues with those, '.', '_' or '-'"
_DATABASE_NAME = "the name of a database consists of lower-case letters, digits, '_' and '-'"
_TOKENS = ("http", "auth", "tokens")
_KEY = ("server", "key")
_STAND_IN = "sqlite:///shop.db"
"""Replaces an unusable URL, so that the other options are still checked."""
_SET_BY_CLIENT = {"path", "uri"}
_OF_CLIENT = {"from": Option("from", str, "client"), **options_of(ClientFolders)}
"""Options of a root that are not its provider's; known for spelling suggestions."""
_SCHEMA = "$schema"
"""Names the schema, for editors of JSON files."""


def load(path: pathlib.Path, *, find_class: FindClass | None = None) -> Manifest:
    """Read and validate a manifest; by default, no plugin code runs.

    Raises:
        ManifestError: all diagnostics, in file order.
    """
    problems = Problems(printable(str(path), longest=4096))
    text = yaml_reader.read_manifest_text(path, problems)
    return _loaded(text, path, problems, find_class)


def load_mapping(mapping: Mapping[str, object], *, find_class: FindClass | None = None) -> Manifest:
    """Validate a manifest that a program has made; its paths are those of the current folder.

    Raises:
        ManifestError: all diagnostics, without positions.
    """
    problems = Problems(MAPPING)
    try:
        # JSON is YAML, so all rules of the file hold; the mapping may change afterwards.
        text = msgspec.json.encode(mapping, enc_hook=os.fspath).decode()
    except (TypeError, ValueError, RecursionError) as error:
        problems.fail((0, 0), (), f"not a manifest: {one_line(error)}")
    try:
        manifest = _loaded(text, None, problems, find_class)
    except ManifestError as error:
        unplaced = [structs.replace(each, line=0, column=0) for each in error.diagnostics]
        raise ManifestError(unplaced) from None
    written = manifest.positions
    keys, values = (dict.fromkeys(each, NOWHERE) for each in (written.keys, written.values))
    return structs.replace(manifest, positions=structs.replace(written, keys=keys, values=values))


def _loaded(
    text: str, path: pathlib.Path | None, problems: Problems, find_class: FindClass | None
) -> Manifest:
    data, positions = yaml_reader.parse_manifest(text, problems)
    data, positions = environment.substitute(data, positions, os.environ, problems)
    positions = _concealing(data, positions)
    loader = _ManifestLoader(path, data, positions, problems, find_class or _built_in)
    manifest = loader.manifest()
    problems.raise_any()
    return manifest


def _concealing(data: Mapping[str, object], positions: Positions) -> Positions:
    """Return positions that also hide database passwords, tokens and the key from messages."""
    secrets = dict(positions.secrets)
    for section in MOUNTS:
        mounts = data.get(section)
        for raw in mounts.values() if is_mapping(mounts) else ():
            sql = raw.get("sql") if is_mapping(raw) else None
            for urls in (raw, sql):
                url = urls.get("url") if is_mapping(urls) else None
                if isinstance(url, str) and is_database_url(url):
                    with contextlib.suppress(ValueError):
                        secrets |= dict.fromkeys(parse_database_url(url).secrets, "***")
    hidden = {path: "***" for path in positions.values if path[:3] == _TOKENS or path[:2] == _KEY}
    return structs.replace(positions, secrets=secrets, written={**hidden, **positions.written})


def _built_in(reference: str, directory: pathlib.Path) -> type | None:
    found = provider_references.built_in(reference)
    if found is None:  # only then: listing installed packages is slow
        provider_references.check_reference(reference)
    return found


class _ManifestLoader:
    """Loads one manifest from its plain data."""

    def __init__(
        self,
        file: pathlib.Path | None,
        data: Mapping[str, object],
        positions: Positions,
        problems: Problems,
        find_class: FindClass,
    ) -> None:
        self._file = file
        self._directory = file.absolute().parent if file else pathlib.Path.cwd()
        self._data = data
        self._positions = positions
        self._problems = problems
        self._find_class = find_class
        self._decoder = Decoder(self._directory, positions, problems)
        self._names: dict[str, DataPath] = {}
        self._bases: dict[str, DataPath] = {}
        self._withheld = {str(file.absolute()): "this root's manifest"} if file else {}

    def manifest(self) -> Manifest:
        for name in self._data:
            if name not in (*SECTIONS, _SCHEMA):
                self._decoder.refuse((name,), unknown_name("section", name, SECTIONS), at_key=True)
        self._check_version()
        server = self._decoder.build(ServerOptions, self._data.get("server"), ("server",))
        if server is not None and isinstance(server.key, KeyFile):
            self._withheld[str(server.key.file.absolute())] = "the key of the server"
        specs = self._mounts()
        audit = self._audit(specs)
        if isinstance(audit, AuditFileOptions) and audit.access.scopes:
            specs = (*specs, *self._activity(audit))
        http = self._decoder.build(Http, self._data.get("http"), ("http",))
        if http is not None and http.fleet and server and not server.secret.is_lasting:
            self._decoder.refuse(
                ("http", "fleet"),
                "needs a secret that all servers of the fleet have; write 'key' in server",
            )
        return Manifest(
            file=self._file,
            directory=self._directory,
            server=server or ServerOptions(),
            http=http or Http(),
            mounts=tuple(spec for spec in specs if spec.client is None),
            client_roots=tuple(spec for spec in specs if spec.client is not None),
            tools=self._tools(),
            audit=audit,
            prompts=self._prompts(),
            positions=self._positions,
            withheld=self._withheld,
        )

    def _check_version(self) -> None:
        version = self._data.get("version", VERSION)
        if version != VERSION or isinstance(version, bool):
            self._decoder.refuse(
                ("version",),
                f"expected {VERSION}, found {self._decoder.found(version, ('version',))}",
            )

    def _mounts(self) -> tuple[MountSpec, ...]:
        entries = [entry for section in MOUNTS for entry in self._entries(section)]
        if not (entries or self._data.get("prompts") or self._problems.sorted()):
            self._decoder.refuse((), f"nothing to serve; write at least: {yaml_reader.EXAMPLE}")
        entries.sort(key=lambda entry: self._positions.key(entry[0]))
        specs = [self._mount(path, raw) for path, raw in entries]
        return tuple(
            structs.replace(spec, withheld=self._withheld) if spec.use == "filesystem" else spec
            for spec in specs
            if spec is not None
        )

    def _tools(self) -> Tools:
        raw = self._data.get("tools")
        if isinstance(raw, bool):
            return Tools(enabled=raw)
        tools: Tools | None = self._decoder.build(Tools, raw, ("tools",))
        return tools or Tools()

    def _audit(self, specs: Sequence[MountSpec]) -> Audit:
        if "audit" not in self._data:
            return None
        raw, at = self._data["audit"], ("audit",)
        if raw == "stderr":
            return "stderr"
        if raw is not None and not is_mapping(raw):
            held = self._decoder.found(raw, at)
            words = "expected 'stderr', or options such as {file: audit.jsonl}"
            return self._decoder.refuse(at, f"{words}, found {held}")
        options: Audit = self._decoder.build(AuditFileOptions, raw, at)
        if not isinstance(options, AuditFileOptions) or ("audit", "file") in self._positions.unset:
            return None
        if (place := place_that_serves(options.file, specs, self._directory)) is not None:
            reason = f"lies in {dotted(place)}, where clients could read it; name a file elsewhere"
            self._decoder.refuse((*at, "file"), reason)
        # A hard link may lie anywhere.
        self._withheld[str(options.file.absolute())] = "the record of reads"
        return options

    def _activity(self, audit: AuditFileOptions) -> Sequence[MountSpec]:
        """Return the mount of the last requests."""
        # Imported here: most manifests have no record.
        from resource_server.audit.activity import BASE, NAME, Activity

        at = ("audit", "access")
        for taken, what in ((self._names.get(NAME), "this name"), (self._bases.get(BASE), BASE)):
            if taken is not None:
                reason = f"{self._place(taken)} already has {what}, which the record needs"
                self._decoder.refuse(at, reason, at_key=True)
                return ()
        scopes = frozenset(audit.access.scopes)
        return (
            MountSpec(
                name=NAME, base=BASE, use=Activity(), title="Activity", access=scopes, path=at
            ),
        )

    def _prompts(self) -> Mapping[str, Prompt]:
        # A mount without a base is faulty or depends on the client; prompts may refer to it.
        mounts = [path for section in MOUNTS for path, _ in self._entries(section)]
        bases = self._bases if len(self._bases) == len(mounts) else None
        problems = PromptProblems(self._decoder, self._positions, bases)
        found: dict[str, Prompt] = {}
        for path, raw in self._entries("prompts"):
            problems.note(raw, path)
            prompt: Prompt | None = self._decoder.build(Prompt, raw, path)
            if prompt is not None:
                found[str(path[-1])] = prompt
        return found

    def _entries(self, section: str) -> list[tuple[DataPath, object]]:
        raw = self._data.get(section)
        if raw is None:
            return []
        if not is_mapping(raw):
            held = self._decoder.found(raw, (section,))
            self._decoder.refuse((section,), f"expected a mapping of names, found {held}")
            return []
        return [((section, name), value) for name, value in raw.items()]

    def _mount(self, path: DataPath, raw: object) -> MountSpec | None:
        section, name = str(path[0]), str(path[1])
        is_database = section == "databases"
        if not re.fullmatch(DATABASE_NAME if is_database else MOUNT_NAME, name):
            words = _DATABASE_NAME if is_database else _PLAIN_NAME
            self._decoder.refuse(path, f"{words}, 64 at most", at_key=True)
            return None
        other = self._names.setdefault(name, path)
        if other != path:
            self._decoder.refuse(path, f"{self._place(other)} already has this name", at_key=True)
        raw = {} if raw is None else raw
        if not is_mapping(raw):
            # For a database this is often a URL with a password.
            held = "another value" if is_database else self._decoder.found(raw, path)
            self._decoder.refuse(path, f"expected a mapping of options, found {held}")
            return None
        options = dict(raw)
        client = self._client_folders(options, path) if section == "roots" else None
        # A provider may extend the values of `watch`, so it is decoded with the provider's options.
        names = [key for key in options_of(MountOptions) if key in options and key != "watch"]
        common = {key: options.pop(key) for key in names}
        own: MountOptions | None = self._decoder.build(MountOptions, common, path)
        use = MOUNTS[section] or self._use(options, path)
        if section == "roots" and is_object_url(str(options.get("path", ""))):
            use = "object_storage"
            self._refuse_of_folders(options, path)
        default = f"file:///{name}/" if section == "roots" else f"resource://{name}/"
        if use == "database" and isinstance(options.get("url"), str):
            url = self._database_url(str(options["url"]), (*path, "url"))
            options["url"] = _STAND_IN if url is None else url.text
            if url is not None and url.is_file and not url.is_pattern:
                self._withheld.setdefault(url.database, f"the database of {dotted(path)}")
            default = f"{'sqlite' if url is None else url.engine}://{name}/"
            self._check_sql_url(options.get("sql"), url, (*path, "sql", "url"))
        base = "file:///" if client else self._base(common.get("uri"), default, path)
        if use is not None:
            siblings = _OF_CLIENT if section == "roots" else {}
            self._decoder.provider(use, options, path, self._find_class, siblings=siblings)
        if use is None or own is None or base is None:
            return None
        return MountSpec(
            name=name,
            base=base,
            use=use,
            title=own.title,
            description=own.description,
            annotations=own.annotations,
            listed=own.listed,
            access=frozenset(own.access.scopes),
            watch=options.get("watch") != "off",
            options=options,
            path=path,
            client=client,
        )

    def _refuse_of_folders(self, options: dict[str, object], path: DataPath) -> None:
        """Refuse and remove the options of folders that object storage does not have."""
        own, others = (
            options_of(cls) if (cls := provider_references.built_in(name)) else {}
            for name in ("object_storage", "filesystem")
        )
        for name in [each for each in options if each in others and each not in own]:
            reason = "is an option of folders on disk, and 'path' is in object storage; remove it"
            self._decoder.refuse((*path, name), f"'{name}' {reason}", at_key=True)
            del options[name]

    def _client_folders(self, options: dict[str, object], path: DataPath) -> ClientFolders | None:
        """Remove the options of client folders from `options`, and return them decoded."""
        allow = {name: options.pop(name) for name in ("allow",) if name in options}
        if "from" not in options:
            if allow:
                at = (*path, "allow")
                self._decoder.refuse(at, "this option needs 'from: client'", at_key=True)
            return None
        at, source = (*path, "from"), options.pop("from")
        if source != "client" and at not in self._positions.unset:
            self._decoder.refuse(at, f"expected 'client', found {self._decoder.found(source, at)}")
        for name in _SET_BY_CLIENT & options.keys():
            reason = "this option conflicts with 'from: client'; the client sets it"
            self._decoder.refuse((*path, name), reason, at_key=True)
        options["path"] = "."
        folders: ClientFolders | None = self._decoder.build(ClientFolders, allow, path)
        return folders or ClientFolders()

    def _use(self, options: dict[str, object], path: DataPath) -> str | None:
        if "use" not in options:
            self._decoder.refuse(
                path, "option 'use' is missing; name a provider or a .py file", at_key=True
            )
            return None
        use = options.pop("use")
        at = (*path, "use")
        if not isinstance(use, str) or not use:
            self._decoder.refuse(
                at, f"expected a provider or a .py file, found {self._decoder.found(use, at)}"
            )
            return None
        return None if at in self._positions.unset else use

    def _database_url(self, text: str, at: DataPath) -> DatabaseUrl | None:
        """Return the parsed URL of a database, its file resolved against the manifest."""
        if at in self._positions.unset:
            return None
        try:
            return resolve_database_url(parse_database_url(text), self._directory)
        except ValueError as error:
            self._decoder.refuse(at, str(error))
            return None

    def _check_sql_url(self, sql: object, url: DatabaseUrl | None, at: DataPath) -> None:
        """Check the URL of the login for callers' SQL: another one for the same engine."""
        text = sql.get("url") if is_mapping(sql) else None
        given = self._database_url(text, at) if isinstance(text, str) else None
        if given is None or url is None:
            return
        if url.is_file:
            self._decoder.refuse(at, "a file needs no login; write 'sql: true' or 'scopes'")
        elif given.engine != url.engine:
            self._decoder.refuse(at, f"expected {url.engine}://…, as in 'url'")

    def _base(self, uri: object, default: str, path: DataPath) -> str | None:
        """Return the canonical base URI: the given one, or the default."""
        at = (*path, "uri")
        given = uri is not None
        if uri is None:
            at, uri = path, default
        elif not isinstance(uri, str) or at in self._positions.unset:
            return None  # reported already
        elif is_database_url(uri):
            return self._decoder.refuse(
                at,
                "the location of a database is its 'url'; 'uri' is what clients see: sqlite://shop/",
            )
        try:
            base = uris.normalise_base(uri)
        except ValueError as error:
            return self._decoder.refuse(
                at, f"{one_line(error)} (found {self._decoder.found(uri, at)})"
            )
        other = self._bases.setdefault(base, path)
        if other != path:
            self._decoder.refuse(
                at,
                f"{self._place(other)} already has this base URI; give one of them another 'uri'",
                at_key=not given,
            )
        return base

    def _place(self, mount: DataPath) -> str:
        line = f" on line {self._positions.key(mount)[0]}" if self._file else ""
        return f"{dotted(mount)}{line}"
