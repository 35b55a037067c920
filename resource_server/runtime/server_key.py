"""The server's secret key, from which each use derives a key of its own."""

from __future__ import annotations

import os
from functools import cache

_DERIVED_BYTES = 32


class ServerKey:
    """A secret of one server, or of a fleet whose servers give the same answers.

    Its `repr` and `str` do not reveal it.
    """

    __slots__ = ("_secret", "is_lasting")

    def __init__(self, secret: bytes, *, is_lasting: bool = True) -> None:
        self._secret = secret
        self.is_lasting = is_lasting
        """Whether it is the same after a restart."""

    def derived(self, purpose: str) -> bytes:
        """Return 32 bytes for one purpose (at most 16 bytes), which tell nothing of other ones."""
        # Imported here and below: a worker process needs neither, and both load OpenSSL.
        from hashlib import blake2b

        return blake2b(
            self._secret, digest_size=_DERIVED_BYTES, person=purpose.encode("ascii")
        ).digest()

    def __eq__(self, other: object) -> bool:
        import hmac

        return isinstance(other, ServerKey) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self._secret)


@cache
def process_key() -> ServerKey:
    """Return the random key of this process, the same across reloads of the manifest."""
    return ServerKey(os.urandom(_DERIVED_BYTES), is_lasting=False)
