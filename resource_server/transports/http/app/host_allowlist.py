"""By which names the server may be addressed, and from whose web pages.

A web page can make a browser send requests to this machine under a name of its own (DNS rebinding);
it cannot make the browser leave out that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LOOPBACK_HOSTS = ("localhost:*", "127.0.0.1:*", "[::1]:*")
LOOPBACK_ORIGINS = tuple(
    f"{scheme}://{host}" for scheme in ("http", "https") for host in LOOPBACK_HOSTS
)

_ANY_PORT = ":*"
_PORT = re.compile(r":\d{1,5}\Z")
_REMEMBERED = 256


class Names:
    """Hosts (`files.example.org`) or origins (`https://files.example.org`) that are allowed.

    `files.example.org:*` is the host with any port, or none.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        names = [name.lower() for name in allowed]
        self._exact = frozenset(name for name in names if not name.endswith(_ANY_PORT))
        self._any_port = frozenset(
            name.removesuffix(_ANY_PORT) for name in names if name.endswith(_ANY_PORT)
        )
        self._known: dict[bytes, bool] = {}

    def __contains__(self, header: bytes) -> bool:
        """Tell whether the name that a header holds is allowed."""
        known = self._known.get(header)
        if known is None:
            name = header.decode("latin-1").strip(" \t").lower()
            known = name in self._exact or _PORT.sub("", name) in self._any_port
            if len(self._known) < _REMEMBERED:
                self._known[header] = known
        return known
