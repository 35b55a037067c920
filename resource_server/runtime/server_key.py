"""The server's secret key, from which each use derives a key of its own."""

from __future__ import annotations

import os
from functools import cache

_DERIVED_BYTES = 32


class ServerKey:
    """A secret of one server, or of a fleet whose servers give the same answers.

    Its `repr` and `str` do not reveal it.
    """

    __slots__ = ("_secret", "is_lasting", "is_shared")

    def __init__(self, secret: bytes, *, is_lasting: bool = True) -> None:
        self._secret = secret
        self.is_lasting = is_lasting
        """Whether it is the same after a restart."""
        self.is_shared = is_lasting
        """Whether another process may have it."""

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


class Seal:
    """Signs texts that clients keep for the server, by a secret of one purpose.

    Any server with the secret opens them. A text is signed, not encrypted.
    """

    __slots__ = ("_secret", "_tag_bytes")

    def __init__(self, secret: bytes, *, tag_bytes: int = 32) -> None:
        self._secret = secret
        self._tag_bytes = tag_bytes

    def sealed(self, body: bytes, context: bytes = b"") -> str:
        """Return a text of letters, digits, `-`, `_` and `=`, valid only with the same context."""
        from base64 import urlsafe_b64encode

        return urlsafe_b64encode(self._tag(body, context) + body).decode("ascii")

    def opened(self, text: str, context: bytes = b"") -> bytes:
        """Return the body of a text.

        Raises:
            ValueError: it was not sealed by this secret with this context.
        """
        from base64 import b64decode, urlsafe_b64encode
        from hmac import compare_digest

        data = b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        tag, body = data[: self._tag_bytes], data[self._tag_bytes :]
        is_signed = compare_digest(tag, self._tag(body, context))
        if not is_signed or urlsafe_b64encode(data).decode("ascii") != text:
            raise ValueError("the signature is not valid")
        return body

    def _tag(self, body: bytes, context: bytes) -> bytes:
        from hashlib import blake2b

        about = blake2b(context).digest()
        return blake2b(about + body, key=self._secret, digest_size=self._tag_bytes).digest()


@cache
def process_key() -> ServerKey:
    """Return the random key of this process, the same across reloads of the manifest."""
    return ServerKey(os.urandom(_DERIVED_BYTES), is_lasting=False)
