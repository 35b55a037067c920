"""URLs of database servers, as people have them."""

from __future__ import annotations

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.server_url import (
    ServerHost,
    parse_server_url,
    resolve_files,
    with_service,
)
from tests.cases import for_each

PASSWORDS = st.text(
    st.characters(exclude_characters="/?%", exclude_categories=("Cs", "Cc")), min_size=1
)


@for_each(
    ("url", "hosts", "parameters"),
    [
        # Case: Databases 2.
        (
            "postgresql://h/d?channel_binding=prefer&connect_timeout=5&application_name=x",
            [("h", None)],
            {"channel_binding": "prefer", "connect_timeout": "5", "application_name": "x"},
        ),
        ("postgres://h/d", [("h", None)], {}),
        ("postgres://h/d\n", [("h", None)], {}),
        ("postgis://u@h:6543/d?pool=5", [("h", 6543)], {"pool": "5"}),
        ("postgresql+asyncpg://h/d?ssl=true", [("h", None)], {"sslmode": "require"}),
        ("postgres://h/d?sslmode=", [("h", None)], {}),
        ("postgresql:///d?host=/run/pg&port=6432", [("/run/pg", 6432)], {}),
        ("postgresql://%2Frun%2Fpg/d", [("/run/pg", None)], {}),
        ("postgres://[fe80::1%25eth0]:5433/d", [("fe80::1%eth0", 5433)], {}),
        ("postgres://h1:5432,[::1]:5433,h3/d", [("h1", 5432), ("::1", 5433), ("h3", None)], {}),
        ("postgres:///d?host=h1,h2&port=1,2", [("h1", 1), ("h2", 2)], {}),
        ("mysql2://h/d?encoding=utf8mb4&reconnect=true", [("h", None)], None),
        ("mysql://h/d?ssl-mode=REQUIRED", [("h", None)], {"ssl_mode": "required"}),
        ("mysql://h/d?sslmode=verify-full", [("h", None)], {"ssl_mode": "verify_identity"}),
        ("mariadb://h1,h2:3307/d", [("h1", None), ("h2", 3307)], {}),
        ("mysql:///d?socket=/run/my.sock", [], {"unix_socket": "/run/my.sock"}),
    ],
)
def test_a_url_is_understood_as_other_programs_write_it(
    url: str, hosts: list[tuple[str, int | None]], parameters: dict[str, str] | None
) -> None:
    found = parse_server_url(url)
    assert list(found.hosts) == [ServerHost(*host) for host in hosts]
    assert found.database == "d"
    assert parameters is None or found.parameters == parameters


@for_each(
    ("url", "reason"),
    [
        ("postgres://h/d?conect_timeout=5", "'conect_timeout' is unknown; did you mean 'connect_t"),
        (
            "postgres://h/d?channel_binding=require",
            "channel_binding=require cannot be honoured; the",
        ),
        ("postgres://h/d?gssencmode=require", "gssencmode=require cannot be honoured; the driver"),
        (
            "postgres://h/d?sslmode=verify",
            "sslmode=verify cannot be honoured; known: disable, allo",
        ),
        ("postgres://h/d?connect_timeout=soon", "'connect_timeout' is a number of seconds"),
        ("postgres://h/d?hostaddr=10.0.0.1", "'hostaddr' cannot be honoured; write the address as"),
        ("postgres://h/d?schema=public", "'schema' cannot be honoured; write the names as `schem"),
        ("postgres://h/d?zzz=1", "the parameter 'zzz' is unknown"),
        ("postgres://h1,h2/d?port=1,2,3", "'port' is one number, or one for each host"),
        ("postgres://h:99999/d", "99999 is no port; ports are numbers from 1 to 65535"),
        ("mysql://h:0/d", "0 is no port; ports are numbers from 1 to 65535"),
        ("mysql://h/d?port=70000", "70000 is no port; ports are numbers from 1 to 65535"),
        ("mysql://h/d?ssl-mod=REQUIRED", "'ssl-mod' is unknown; did you mean 'ssl_mode'?"),
        ("mysql://h/d?charset=latin1", "charset=latin1 cannot be honoured; known: utf8"),
        ("mysql://h/d?sslmode=allow", "sslmode=allow cannot be honoured; known: disabled, prefer"),
        ("mysql://h/d?local_infile=1", "local_infile=1 cannot be honoured; files are never sent"),
        ("mysql://u:pass?word@h/d", "misplaced special characters; write '@'"),
        ("mysql://u:pass/word@h/d", "misplaced special characters; write '@'"),
        ("mysql://u:100%@h/d", "misplaced special characters; write '@'"),
    ],
)
def test_a_parameter_that_cannot_be_honoured_is_named(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        parse_server_url(url)
    assert "word" not in str(caught.value).replace("password", "")


@given(PASSWORDS)
def test_a_password_is_taken_as_it_is_typed(password: str) -> None:
    assert parse_server_url(f"postgres://me:{password}@h:1/d").password == password


def test_certificates_are_relative_to_the_manifest() -> None:
    folder = pathlib.Path("/conf")
    url = "postgres://h/d?sslrootcert=ca+1.pem&sslkey=/k.pem&application_name=a%20b"
    assert resolve_files(url, folder) == (
        "postgres://h/d?sslrootcert=/conf/ca%2B1.pem&sslkey=/k.pem&application_name=a%20b"
    )
    for same in ("postgres://h/d?sslrootcert=system", "postgres://h/d?application_name=a+b"):
        assert resolve_files(same, folder) == same


@pytest.fixture
def services(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pg_service.conf").write_text(
        "[shop]\nhost=db.example\nport=6000\nuser=reader\npassword=s%e=c\ndbname=shop\n"
        "connect_timeout=7\n[odd]\nconect_timeout=7\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "pg_service.conf"))
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path / "none"))


@pytest.mark.usefixtures("services")
def test_a_service_adds_what_the_url_lacks() -> None:
    found = with_service(parse_server_url("postgres://?service=shop"))
    assert (found.user, found.password, found.database) == ("reader", "s%e=c", "shop")
    assert list(found.hosts) == [("db.example", 6000)]
    assert found.parameters["connect_timeout"] == "7"
    found = with_service(parse_server_url("postgres://me@h/d?service=shop&connect_timeout=1"))
    assert (found.user, list(found.hosts), found.database) == ("me", [("h", None)], "d")
    assert found.parameters["connect_timeout"] == "1"


@pytest.mark.usefixtures("services")
def test_a_service_that_is_missing_or_odd_is_named() -> None:
    with pytest.raises(ValueError, match=r"service=shpo: neither .* has this service"):
        with_service(parse_server_url("postgres://?service=shpo"))
    with pytest.raises(ValueError, match="'conect_timeout' is unknown; did you mean 'connect_"):
        with_service(parse_server_url("postgres://?service=odd"))
