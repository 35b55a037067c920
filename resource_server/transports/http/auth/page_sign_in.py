"""Sign-in of people to pages: by a token, or by the code of a link that works once."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from resource_server.access import EVERYBODY, Caller
from resource_server.transports.http.app.request import HttpError
from resource_server.transports.http.auth.page_cookies import PageCookies


class PageSignIn:
    """Signs people in: by a token, or by the code of a link that works once.

    `verify` returns the caller of a token sent from an address, or raises `HttpError`.
    """

    def __init__(
        self,
        cookies: PageCookies,
        verify: Callable[[str, str], Awaitable[Caller]] | None,
        code: str | None = None,
    ) -> None:
        self.cookies = cookies
        self.takes_tokens = verify is not None
        self._verify = verify
        self._code = code

    def redeem(self, code: str) -> Caller | None:
        """Return the caller of a link; its code is worth nothing afterwards."""
        if self._code is None or not hmac.compare_digest(self._code.encode(), code.encode()):
            return None
        self._code = None
        return EVERYBODY

    async def verified(self, token: str, address: str) -> Caller | None:
        """Return the caller of a token; None for one that is not valid.

        Raises:
            HttpError: 429 after too many invalid tokens, 503 while keys are not available.
        """
        if self._verify is None:
            return None
        try:
            return await self._verify(token, address)
        except HttpError as error:
            if error.status in (400, 401, 403):
                return None
            raise
