"""URLs of database servers as libpq, MySQL and their frameworks write them, checked by name."""

from __future__ import annotations

import configparser
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlencode

from resource_server.runtime.near_name import did_you_mean

ServerEngineName: TypeAlias = Literal["postgresql", "mysql", "mariadb"]

SCHEMES: Final[Mapping[str, ServerEngineName]] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "pgsql": "postgresql",
    "psql": "postgresql",
    "postgis": "postgresql",
    "timescale": "postgresql",
    "mysql": "mysql",
    "mysql2": "mysql",
    "mysqlgis": "mysql",
    "trilogy": "mysql",
    "mariadb": "mariadb",
}
"""Schemes of URLs, with those of Heroku, Django and Rails."""
SPECIAL: Final = (
    "misplaced special characters; write '@', ':', '/', '?', '%' in a user, password or name "
    "as %40, %3A, %2F, %3F, %25"
)
_AUTHORITY: Final = re.compile(r"([^:/?@+]+)(?:\+\w+)?://([^/?]*)(/[^?]*)?(?:\?(.*))?", re.DOTALL)
_WRONG_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^:\[\]]*)(?::(\d*))?")
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_PATHS: Final = frozenset(
    """
    sslrootcert sslcert sslkey sslcrl passfile
    ssl_ca ssl_cert ssl_key ssl_capath sslca sslcapath read_default_file
    """.split()
)
"""Parameters that are files, relative to the manifest."""

_ANY: Final = None
_OFF: Final[Sequence[str]] = ("0", "false", "off", "no")
_ON: Final[Sequence[str]] = ("1", "true", "on", "yes")
_UTF_8: Final = ("utf8", "utf-8", "utf8mb4", "utf8mb3", "unicode", "auto")
_POOLS: Final = dict.fromkeys(
    """
    pool pool_size pool_timeout pool_recycle pool_pre_ping max_overflow connection_limit
    conn_max_age conn_health_checks reaping_frequency checkout_timeout idle_timeout socket_timeout
    prepared_statements statement_cache_size prepared_statement_cache_size
    pgbouncer reconnect supa workaround
    """.split(),
    _ANY,
)
"""Parameters of frameworks for pools of their own."""
_POSTGRES: Final[Mapping[str, Sequence[str] | None]] = {
    **dict.fromkeys(
        """
        host port user password dbname passfile service connect_timeout application_name
        fallback_application_name options sslcert sslkey sslrootcert sslcrl sslpassword
        ssl_min_protocol_version ssl_max_protocol_version krbsrvname gsslib
        keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
        sslcompression gssdelegation max_protocol_version
        """.split(),
        _ANY,
    ),
    **_POOLS,
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "target_session_attrs": (
        "any", "primary", "standby", "read-write", "read-only", "prefer-standby",
    ),
    "channel_binding": ("prefer", "disable"),
    "gssencmode": ("prefer", "disable"),
    "client_encoding": _UTF_8,
    "load_balance_hosts": ("disable",),
    "replication": _OFF,
    "requiressl": ("0",),
    "sslcertmode": ("allow",),
    "sslsni": ("1",),
}  # fmt: skip
"""Parameters of PostgreSQL that are honoured, or mean nothing here, with their values."""
_MYSQL: Final[Mapping[str, Sequence[str] | None]] = {
    **dict.fromkeys(
        """
        host port user password database unix_socket connect_timeout program_name init_command
        read_default_file read_default_group ssl_ca ssl_cert ssl_key ssl_capath ssl_cipher
        read_timeout write_timeout compress use_unicode autocommit allow_public_key_retrieval
        get_server_public_key parsetime
        """.split(),
        _ANY,
    ),
    **_POOLS,
    "ssl_mode": ("disabled", "preferred", "required", "verify_ca", "verify_identity"),
    "ssl_check_hostname": (*_ON, *_OFF),
    "charset": _UTF_8,
    "local_infile": _OFF,
}
"""The same of MySQL and MariaDB."""
_SYNONYMS: Final[Mapping[str, Mapping[str, str]]] = {
    "postgresql": {"database": "dbname", "ssl": "sslmode", "encoding": "client_encoding"},
    "mysql": {
        "db": "database",
        "dbname": "database",
        "socket": "unix_socket",
        "encoding": "charset",
        "default_character_set": "charset",
        "ssl": "ssl_mode",
        "sslmode": "ssl_mode",
        "usessl": "ssl_mode",
        "sslca": "ssl_ca",
        "sslcert": "ssl_cert",
        "sslkey": "ssl_key",
        "sslcapath": "ssl_capath",
        "sslcipher": "ssl_cipher",
    },
}
_MODES: Final[Mapping[str, Mapping[str, str]]] = {
    "sslmode": {**dict.fromkeys(_ON, "require"), **dict.fromkeys(_OFF, "disable")},
    "ssl_mode": {
        **dict.fromkeys((*_ON, "require"), "required"),
        **dict.fromkeys((*_OFF, "disable"), "disabled"),
        "prefer": "preferred",
        "verify_full": "verify_identity",
    },
}
"""Spellings of TLS modes in other programs."""
_REASONS: Final[Mapping[str, str]] = {
    "channel_binding": "the driver has none; write 'prefer', and sslmode=verify-full to prove the "
    "server by its certificate",
    "gssencmode": "the driver encrypts by TLS only; write 'prefer', and sslmode=require",
    "hostaddr": "write the address as the host",
    "require_auth": "the driver takes the method that the server asks for",
    "requirepeer": "the driver does not check it",
    "schema": "write the names as `schemas` of the mount",
    "search_path": "write options=-csearch_path=…",
    "sslaccept": "write sslmode=verify-full",
    "sslcrldir": "write the file as sslcrl",
    "sql_mode": "statements here need a mode of their own",
    "replication": "reads need an ordinary connection",
    "local_infile": "files are never sent",
}


class ServerHost(NamedTuple):
    """A server: its name, its address, or the folder of its socket."""

    name: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The parsed URL of a server."""

    engine: ServerEngineName
    user: str | None
    password: str | None = field(repr=False)
    hosts: Sequence[ServerHost]
    """Empty if the driver decides; several are tried in order."""
    database: str
    parameters: Mapping[str, str] = field(repr=False)
    """Other parameters by their canonical names, without those that mean nothing here."""


def parse_server_url(url: str) -> ServerUrl:
    """Parse the URL of a server. A password may have '@', ':' and '#' as they are.

    Raises:
        ValueError: the URL is unusable; the message names the parameter, and quotes no secret.
    """
    match = _AUTHORITY.fullmatch(url.strip())  # of a secret file, with a newline
    engine = SCHEMES.get(match[1].lower()) if match else None
    if match is None or engine is None:
        raise ValueError("not the URL of a database server")
    authority, path, query = match[2], match[3] or "", match[4] or ""
    login, _, places = authority.rpartition("@")
    user, _, password = login.partition(":")
    database = path.removeprefix("/")
    if "/" in database or "@" in path or _WRONG_PERCENT.search(f"{login}{database}{query}"):
        raise ValueError(SPECIAL)
    if login and not places:
        raise ValueError("a user without a host; write user@host")
    hosts = [_host(each) for each in places.split(",")] if places else []
    given = _checked(engine, _pairs(query))
    if not hosts and "host" in given:
        hosts = [_host(each) for each in given["host"].split(",")]
    ports = [_port(each) for each in given.pop("port", "").split(",")]
    if len(ports) not in (1, len(hosts)):
        raise ValueError("'port' is one number, or one for each host")
    if ports != [None]:
        ports *= len(hosts or [""]) if len(ports) == 1 else 1
        hosts = [
            ServerHost(host.name, host.port or port)
            for host, port in zip(hosts or [ServerHost("")], ports, strict=True)
        ]
    given.pop("host", None)
    named = given.pop("dbname" if engine == "postgresql" else "database", "")
    return ServerUrl(
        engine,
        unquote(user) or given.pop("user", None) or None,
        unquote(password) or given.pop("password", None) or None,
        tuple(hosts),
        unquote(database) or named,
        {name: value for name, value in given.items() if name not in ("user", "password")},
    )


def _checked(engine: str, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return parameters by their canonical names; of one that is given twice, the last.

    Raises:
        ValueError: one is unknown, or cannot be honoured; the message names it.
    """
    family = "postgresql" if engine == "postgresql" else "mysql"
    known, synonyms = (_POSTGRES if family == "postgresql" else _MYSQL), _SYNONYMS[family]
    if not all(_NAME.fullmatch(name) for name, _ in pairs):
        raise ValueError(SPECIAL)  # the rest of a password, perhaps
    found: dict[str, str] = {}
    for given, value in pairs:
        if not value:
            continue  # the default, as for libpq
        name = given if given in known else given.lower().replace("-", "_")
        name = synonyms.get(name, name)
        if name not in known:
            why = _REASONS.get(name) or did_you_mean(given, known)[2:]
            problem = "cannot be honoured" if name in _REASONS else "is unknown"
            raise ValueError(f"the parameter '{given}' {problem}{'; ' if why else ''}{why}")
        if name in _MODES:
            mode = value.lower() if name == "sslmode" else value.lower().replace("-", "_")
            value = _MODES[name].get(mode, mode)
        choices = known[name]
        if choices is not None and value.lower() not in choices:
            why = _REASONS.get(name) or f"known: {', '.join(choices)}"
            raise ValueError(f"{given}={value[:64]} cannot be honoured; {why}")
        if name == "connect_timeout" and not re.fullmatch(r"-?\d{1,9}", value):
            raise ValueError(f"'{given}' is a number of seconds")
        found[name] = value
    return found


def is_server_url(argument: str) -> bool:
    """Return whether an argument is the URL of a server, not a resource URI like `mysql://shop/…`.

    Such a URL has a scheme of its own, no host at all or several, a login, a port or parameters.
    """
    match = _AUTHORITY.fullmatch(argument)
    if match is None or match[1].lower() not in SCHEMES:
        return False
    scheme, authority, query = match[1].lower(), match[2], match[4] or ""
    if scheme != SCHEMES[scheme] or not authority or re.search("[@:,]", authority):
        return True
    return bool({name for name, _ in _pairs(query)} & (_POSTGRES.keys() | _MYSQL.keys()))


def resolve_files(url: str, directory: pathlib.Path) -> str:
    """Return the URL with its certificates and other files relative to a folder made absolute."""
    start, mark, query = url.partition("?")
    pairs = _pairs(query)
    resolved = [
        (name, str(directory / pathlib.Path(value).expanduser()))
        if name.lower().replace("-", "_") in _PATHS and value not in ("", "system")
        else (name, value)
        for name, value in pairs
    ]
    return (
        url
        if resolved == pairs
        else f"{start}{mark}{urlencode(resolved, safe='/', quote_via=quote)}"
    )


def with_service(url: ServerUrl) -> ServerUrl:
    """Return a URL of PostgreSQL with what its service adds: a section of a service file.

    Raises:
        ValueError: there is no such service, or it has a parameter that cannot be honoured.
    """
    service = url.parameters.get("service") or os.environ.get("PGSERVICE")
    if url.engine != "postgresql" or not service:
        return url
    own = os.environ.get("PGSERVICEFILE") or "~/.pg_service.conf"
    system = pathlib.Path(os.environ.get("PGSYSCONFDIR", "/etc/postgresql-common"))
    for file in (pathlib.Path(own).expanduser(), system / "pg_service.conf"):
        services = configparser.ConfigParser(interpolation=None, delimiters=("=",))
        try:
            services.read(file, "utf-8")
        except (configparser.Error, UnicodeError):
            raise ValueError(f"{file.name}: not a service file") from None
        if services.has_section(service):
            break
    else:
        raise ValueError(f"service={service}: neither {own} nor {system} has this service")
    added = parse_server_url(f"postgresql://?{urlencode(services.items(service), quote_via=quote)}")
    return ServerUrl(
        url.engine,
        url.user or added.user,
        url.password or added.password,
        url.hosts or added.hosts,
        url.database or added.database,
        {**added.parameters, **url.parameters},
    )


def _pairs(query: str) -> list[tuple[str, str]]:
    # A plus is no space here, unlike in forms.
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)


def _host(place: str) -> ServerHost:
    if place.startswith(("/", "%2F", "%2f")):
        return ServerHost(unquote(place))
    match = _PLACE.fullmatch(place)
    if match is None:
        raise ValueError(SPECIAL)
    return ServerHost(unquote(match[1].strip("[]")), _port(match[2] or ""))


def _port(text: str) -> int | None:
    if text and not (text.isdecimal() and 0 < int(text[:9]) < 2**16):
        raise ValueError(f"{text[:9]} is no port; ports are numbers from 1 to 65535")
    return int(text) if text else None
