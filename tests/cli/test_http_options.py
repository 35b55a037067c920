from __future__ import annotations

import datetime
import ipaddress
import ssl
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cases import for_each
from tests.cli.conftest import PATIENCE_S, Lines, Run, started
from tests.protocol.wire import ENVELOPE

GIVEN = "0123456789abcdef"


@contextmanager
def serving(*arguments: str | Path) -> Generator[str]:
    """Serve over HTTP in a process; give the address of the endpoint."""
    with started("serve", *arguments, stdout=subprocess.DEVNULL) as (_, errors):
        yield Lines(errors).until("serving at ")[-1].rpartition(" ")[2]


def here(url: str) -> str:
    """Return the address of what listens everywhere, for clients on this machine."""
    return url.replace("//0.0.0.0", "//127.0.0.1")


def status(
    url: str, headers: Mapping[str, str] | None = None, verify: ssl.SSLContext | bool = True
) -> int:
    """Return the status of the answer to `server/discover`."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
    sent = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "server/discover",
        **(headers or {}),
    }
    body = {**message, "params": {"_meta": ENVELOPE}}
    return httpx2.post(url, json=body, headers=sent, verify=verify, timeout=PATIENCE_S).status_code


def manifest(folder: Path, http: str) -> Path:
    (folder / "mcp-resources.yaml").write_text(f"roots: {{r: {{path: docs}}}}\nhttp: {http}\n")
    return folder


# -- other machines


@pytest.mark.guarantee("others-need-a-token")
def test_other_machines_are_admitted_only_with_tokens_or_explicitly(folder: Path, run: Run) -> None:
    refused = run("serve", folder, "--http", "0.0.0.0:0")
    assert (refused.status, refused.err) == (
        1,
        "resource-server: refused to listen on 0.0.0.0:0, where any machine could read everything; "
        "write http.auth in the manifest, or allow this with --insecure\n",
    )
    with serving(folder, "--http", "0.0.0.0:0", "--insecure") as url:
        assert status(here(url)) == 200
    with serving(
        manifest(folder, f"{{auth: {{tokens: [{GIVEN}]}}}}"), "--http", "0.0.0.0:0"
    ) as url:
        assert status(here(url)) == 401
        given = {"authorization": f"Bearer {GIVEN}"}
        assert status(here(url), given) == 200


@pytest.mark.guarantee("others-need-a-token")
@pytest.mark.parametrize("address", ["[::]:0", "192.0.2.1:0", "example.org:0"])
def test_every_non_loopback_address_is_refused(folder: Path, run: Run, address: str) -> None:
    assert "refused to listen on" in run("serve", folder, "--http", address).err


@pytest.mark.guarantee("others-need-a-token")
def test_loopback_needs_neither_tokens_nor_an_explicit_option(folder: Path) -> None:
    with serving(folder, "--http", "localhost:0") as url:
        assert status(url) == 200


def test_an_issuer_requires_a_public_url(folder: Path, run: Run) -> None:
    issuer = "auth: {issuer: 'https://login.example.org', audience: a}"
    refused = run("serve", manifest(folder, f"{{{issuer}}}"), "--http", "0.0.0.0:0")
    assert (refused.status, "write http.url in the manifest" in refused.err) == (1, True)
    public = manifest(folder, f"{{{issuer}, url: 'https://files.example.org/mcp'}}")
    with serving(public, "--http", "0.0.0.0:0") as url:
        assert status(here(url)) == 401


def test_scopes_without_authentication_are_logged_as_ineffective(folder: Path) -> None:
    said = (
        "resource-server: 'access' has no effect: "
        "without 'http.auth', everybody can read everything"
    )
    guarded = f"{{auth: {{tokens: [{GIVEN}]}}}}"
    for http, access, told in (
        ("{}", "access: {scopes: [hr]}", True),
        ("{}", "directories: {a: {access: {scopes: [hr]}}}", True),
        (guarded, "access: {scopes: [hr]}", False),
        ("{}", "", False),
    ):
        text = f"roots: {{r: {{path: docs, {access}}}}}\nhttp: {http}\n"
        (folder / "mcp-resources.yaml").write_text(text)
        arguments = ("serve", folder, "--http", "127.0.0.1:0")
        with started(*arguments, stdout=subprocess.DEVNULL) as (_, errors):
            assert (said in Lines(errors).until("serving at ")) == told


# -- the manifest while it is served


def test_changed_http_options_are_logged_once_and_apply_after_a_restart(
    folder: Path,
) -> None:
    with_one, with_two = (
        f"{{auth: {{tokens: [{tokens}]}}}}" for tokens in (GIVEN, f"{GIVEN}, {GIVEN}1")
    )
    manifest(folder, with_one)
    with started("serve", folder, "--http", "127.0.0.1:0", "-v", stdout=subprocess.DEVNULL) as (
        _,
        errors,
    ):
        lines = Lines(errors)
        url = lines.until("serving at ")[-1].rpartition(" ")[2]
        for written, said in (
            (with_two, 1),
            # Something else has changed meanwhile.
            (f"{with_two}\nserver: {{title: x}}", 0),
            (f"{with_one}\nserver: {{title: x}}", 0),
            (with_two, 1),
        ):
            manifest(folder, written)
            found = lines.until("the manifest was reloaded")
            assert len([line for line in found if "http has changed" in line]) == said
            assert status(url, {"authorization": f"Bearer {GIVEN}1"}) == 401
            assert status(url, {"authorization": f"Bearer {GIVEN}"}) == 200


# -- TLS


def write_certificate(folder: Path, password: bytes = b"") -> tuple[Path, Path]:
    """Write a certificate of this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    encryption: Any = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return paths


def test_a_certificate_enables_tls(folder: Path, tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=cert)
    door = ("--http", "127.0.0.1:0", "--tls-cert", cert)
    with serving(folder, *door, "--tls-key", key) as url:
        assert url.startswith("https://127.0.0.1:")
        assert status(url, verify=trusting) == 200
    cert.write_bytes(cert.read_bytes() + key.read_bytes())
    with serving(folder, *door) as url:
        assert status(url, verify=trusting) == 200


def test_clients_over_tls_log_nothing_on_standard_error(folder: Path, tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=cert)
    door = ("--http", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
    with started("serve", folder, *door, stdout=subprocess.DEVNULL) as (process, errors):
        lines = Lines(errors)
        url = lines.until("serving at ")[-1].rpartition(" ")[2]
        for _ in range(3):
            assert status(url, verify=trusting) == 200
        process.terminate()
        assert lines.rest() == []


def test_an_unusable_certificate_is_refused(folder: Path, tmp_path: Path, run: Run) -> None:
    cert, key = write_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    _, other = write_certificate(tmp_path / "other")
    (tmp_path / "locked").mkdir()
    locked_cert, locked = write_certificate(tmp_path / "locked", b"password")
    for given, reason in (
        ((cert, other), "key values mismatch"),
        ((key, key), "cannot be used"),
        ((locked_cert, locked), "cannot be used"),
        ((cert, tmp_path / "none"), "No such file"),
    ):
        door = ("--http", "127.0.0.1:0", "--tls-cert", given[0], "--tls-key", given[1])
        found = run("serve", folder, *door)
        assert found.status == 1
        assert "the certificate or its key cannot be" in found.err
        assert reason in found.err
        assert found.err.count("\n") == 1


# -- behind a proxy


def test_forwarded_client_addresses_are_trusted_only_from_named_proxies(folder: Path) -> None:
    source = manifest(folder, "{limits: {rate: 0.0001, burst: 1}}")
    one, other = ({"x-forwarded-for": f"192.0.2.{number}"} for number in (1, 2))
    door = ("--http", "127.0.0.1:0")
    with serving(source, *door, "--forwarded-allow-ips", "127.0.0.0/8") as url:
        assert [status(url, each) for each in (one, one, other)] == [200, 429, 200]
    for more in ((), ("--forwarded-allow-ips", "192.0.2.7")):
        with serving(source, *door, *more) as url:
            assert [status(url, each) for each in (one, other)] == [200, 429]


# -- options that do not fit


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--insecure",), "these options need --http"),
        (("--tls-cert", "x"), "these options need --http"),
        (("--http", "127.0.0.1:0", "--tls-key", "x"), "--tls-key needs --tls-cert"),
        (
            ("--http", "127.0.0.1:0", "--forwarded-allow-ips", "10.0.0.1,proxy"),
            "'proxy' is not an address, a network or *",
        ),
    ],
)
def test_incompatible_options_are_refused(
    folder: Path, run: Run, arguments: tuple[str, ...], reason: str
) -> None:
    found = run("serve", folder, *arguments)
    assert found.status == 2
    assert reason in found.err


@for_each("count", ["0", "-1", "65", "1000000000000", "auto", "1.5", ""])
def test_a_number_of_workers_that_is_none_is_refused(folder: Path, run: Run, count: str) -> None:
    refused = run("serve", folder, "--http", "127.0.0.1:0", "--workers", count)
    assert (refused.status, "'--workers'" in refused.err) == (2, True)


def test_workers_require_http(folder: Path, run: Run) -> None:
    refused = run("serve", folder, "--workers", "2")
    assert (refused.status, "these options need --http" in refused.err) == (2, True)


def test_an_access_log_requires_http(folder: Path, run: Run) -> None:
    refused = run("serve", folder, "--access-log")
    assert (refused.status, "these options need --http" in refused.err) == (2, True)
