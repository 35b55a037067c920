"""The certificate by which clients know the server, where no proxy has one for it."""

from __future__ import annotations

import ssl
from typing import NamedTuple


class Certificate(NamedTuple):
    """Files in PEM: a certificate with those it depends on, and its key."""

    file: str
    key: str | None = None
    """By default in the same file."""

    def check(self) -> None:
        """See whether it can be used.

        Raises:
            ValueError: it cannot; says why.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without a password it would be asked for at the terminal.
            context.load_cert_chain(self.file, self.key, password="")
        except ssl.SSLError as error:
            reason = (error.reason or "not PEM").lower().replace("_", " ")
            raise ValueError(f"the certificate or its key cannot be used: {reason}") from None
        except OSError as error:
            raise ValueError(f"the certificate or its key cannot be read: {error}") from None
