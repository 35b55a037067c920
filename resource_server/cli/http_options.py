"""HTTP options of `serve`, and their checks."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from resource_server.cli import console
from resource_server.manifest import Manifest
from resource_server.manifest.http import Http

MAX_WORKERS = 64
NO_TOKENS = "'access' has no effect: without 'http.auth', everybody can read everything"


def access_warning(http: Http, access: Mapping[str, Sequence[str]]) -> str | None:
    """Return why some callers see more, or less, than the scopes of a mount may suggest.

    `access` has the required scopes by the option that requires them.
    """
    if not access or not http.auth:
        return NO_TOKENS if access else None
    every = {scope for scopes in access.values() for scope in scopes}
    lacking = sorted(every.difference(http.auth.scopes))
    if not lacking or not http.auth.unscoped_subjects:
        return None
    subjects = ", ".join(http.auth.unscoped_subjects)
    return (
        "static tokens without 'scopes' have those of http.auth.scopes: "
        f"{subjects} see nothing that requires {', '.join(lacking)}"
    )


class HttpOptions(NamedTuple):
    """The HTTP options of `serve`."""

    address: str
    is_insecure: bool
    tls_cert: str | None
    tls_key: str | None
    proxies: str | None
    logs_access: bool
    is_legacy: bool
    workers: int

    def check(self) -> None:
        """Check that the options are consistent.

        Raises:
            click.UsageError: they are not.
        """
        if self.tls_key and not self.tls_cert:
            raise console.usage_error("--tls-key needs --tls-cert")
        if self.proxies is None or self.proxies == "*":
            return
        for proxy in self.proxies.split(","):
            try:
                ipaddress.ip_network(proxy.strip())
            except ValueError:
                reason = f"'{proxy.strip()}' is not an address, a network or *"
                raise click.BadParameter(reason, param_hint="--forwarded-allow-ips") from None

    def refusal(self, manifest: Manifest, *, is_loopback: bool) -> str | None:
        """Return why serving at this address is refused; None if it is allowed."""
        if is_loopback:
            return None
        http = manifest.http
        if published := manifest.published_secrets:
            return f"refused to listen on {self.address} with a published secret: {published[0]}"
        if not http.auth and not self.is_insecure:
            return (
                f"refused to listen on {self.address}, where any machine could read everything; "
                "write http.auth in the manifest, or allow this with --insecure"
            )
        if http.auth and http.auth.issuers and http.url is None:
            return (
                "clients find the authorization server through the public URL of this server; "
                "write http.url in the manifest"
            )
        return None
