"""The application of a server, with the authentication, pages and store of its manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.runtime import extras
from resource_server.runtime.server_key import ServerKey, process_key
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.application import Application, rate_limiter
from resource_server.transports.http.app.request import RequestObserver, public_prefix
from resource_server.transports.http.auth.authenticator import Authenticator
from resource_server.transports.http.auth.page_sign_in import PageSignIn, page_sign_in
from resource_server.transports.http.auth.protected_resource import ProtectedResource
from resource_server.transports.http.observability.access_log import AccessLog
from resource_server.transports.http.observability.health import Authenticate
from resource_server.transports.http.observability.tracing import tracing_of

if TYPE_CHECKING:
    from resource_server.explorer.application import Explorer
    from resource_server.transports.http.fleet.store import FleetStore
    from resource_server.transports.http.workers.worker import Worker


class ServedPlace(Protocol):
    """Where clients find the server."""

    @property
    def url(self) -> str | None:
        """The endpoint's URL, if it is known before a request."""
        ...

    @property
    def hosts(self) -> Sequence[str]:
        """The hosts by which clients may address it, besides the names of this machine."""
        ...

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        ...


class ParentApplication(NamedTuple):
    """The place of a server that another ASGI application passes requests to."""

    hosts: Sequence[str] = ()
    authenticate: Authenticate | None = None
    """Returns the caller whom the parent has authenticated; takes the place of `http.auth`."""

    @property
    def url(self) -> None:
        """Unknown: the parent may answer under several paths and names."""
        return

    @property
    def is_loopback(self) -> bool:
        """Always false: the parent may listen anywhere."""
        return False


def application_of(
    server: Server,
    options: Http,
    place: ServedPlace,
    *,
    legacy: bool = False,
    logs_access: bool = False,
    key: ServerKey | None = None,
    link_code: str | None = None,
    worker: Worker | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> Application:
    """Return the application for a place, with the authentication of the manifest or the parent.

    Raises:
        ValueError: what `http.auth` or `http.explorer` needs is not installed.
        MissingExtra: what `http.fleet` needs is not installed.
    """
    observed: list[RequestObserver | None] = [AccessLog(server) if logs_access else None]
    observed.append(tracing_of(server))
    store = _store(server, options, timing)
    resource: ProtectedResource | None = None
    sign_in: PageSignIn | None = None
    parent = place if isinstance(place, ParentApplication) else None
    authenticate: Authenticate | None = parent.authenticate if parent else None
    named = (urlsplit(options.url).netloc,) if parent and options.url else ()
    if options.auth and authenticate is None:
        resource = ProtectedResource(
            options.url or place.url,
            options.auth.issuers,
            options.auth.scopes,
            mount_scopes=lambda: server.catalog.visibility.scopes,
        )
        rates = rate_limiter(options.limits, store, worker, "refusals")
        authenticate = authenticator = Authenticator(
            options.auth, resource, rates=rates, timing=timing
        )
        sign_in = page_sign_in(
            options,
            options.auth,
            resource,
            authenticator,
            key or process_key(),
            link_code=link_code,
            claims=lambda: server.catalog.visibility.claims,
            timing=timing,
        )
    return Application(
        server,
        options,
        authenticate=authenticate,
        resource=resource,
        hosts=(*place.hosts, *named),
        legacy=legacy,
        explorer=_explorer(server, options, place),
        sign_in=sign_in,
        is_loopback=place.is_loopback,
        is_mounted=parent is not None,
        observers=[each for each in observed if each is not None],
        store=store,
        worker=worker,
        timing=timing,
    )


def _store(server: Server, options: Http, timing: Timing) -> FleetStore | None:
    """Return the store of `http.fleet`.

    Raises:
        MissingExtra: its packages are not installed.
    """
    if options.fleet is None:
        return None
    extras.require_packages("fleet", "http.fleet")
    # Imported here: an optional package.
    from resource_server.transports.http.fleet.store import FleetStore

    return FleetStore(options.fleet.url, server.key, timing)


def _explorer(server: Server, options: Http, place: ServedPlace) -> Explorer | None:
    """Return the explorer if the manifest asks for it, or for this machine if it is installed.

    Raises:
        ValueError: the manifest asks for it, and it is not installed.
    """
    is_offered = place.is_loopback or isinstance(place, ParentApplication)
    if options.explorer is False or (options.explorer is None and not is_offered):
        return None
    if extras.missing("explorer"):
        if options.explorer is None:
            return None
        extras.require_packages("explorer", "http.explorer")
    # Imported here: its packages are optional.
    from resource_server.explorer.application import Explorer

    return Explorer(server, public_prefix(options.url))
