"""Where clients come in over HTTP, as the command line has it, and whether they may."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

import click

from resource_server.manifest.http import Http

NO_TOKENS = "'access' does nothing: without 'http.auth' everybody may see everything"


class Door(NamedTuple):
    """The options of `serve` that say how it is reached."""

    address: str
    is_insecure: bool
    tls_cert: str | None
    tls_key: str | None
    proxies: str | None
    logs_access: bool
    is_legacy: bool

    def check(self) -> None:
        """See whether the options fit together.

        Raises:
            click.UsageError: they do not.
        """
        if self.tls_key and not self.tls_cert:
            raise click.UsageError("--tls-key needs --tls-cert", click.get_current_context())
        if self.proxies is None or self.proxies == "*":
            return
        for proxy in self.proxies.split(","):
            try:
                ipaddress.ip_network(proxy.strip())
            except ValueError:
                reason = f"'{proxy.strip()}' is no address, network or *"
                raise click.BadParameter(reason, param_hint="--forwarded-allow-ips") from None

    def refusal(self, http: Http, *, is_loopback: bool) -> str | None:
        """Return why nobody may come in here; None where they may."""
        if is_loopback:
            return None
        if not http.auth and not self.is_insecure:
            return (
                f"refused to listen on {self.address}, where whoever comes may read everything; "
                "write http.auth in the manifest, or let everybody in with --insecure"
            )
        if http.auth and http.auth.issuers and http.url is None:
            return (
                "clients are told where to get tokens by the server's public address; "
                "write http.url in the manifest"
            )
        return None


def refuse_workers(_context: click.Context, _option: click.Parameter, given: str | None) -> None:
    """Refuse `--workers`, which other servers have.

    Raises:
        click.UsageError: it is given.
    """
    if given is not None:
        raise click.UsageError(
            "there is no --workers: a session lives in one process, and its requests would come "
            "to others; run several servers behind a balancer, as examples/http has them"
        )
