"""Media types of requests and answers: what a client sends, and what it takes."""

from __future__ import annotations

import functools
import re

from resource_server.transports.http.app.request import Refused, Request

JSON = "application/json"
STREAM = "text/event-stream"

_REFUSED = re.compile(r"(?:^|;)[ \t]*q[ \t]*=[ \t]*0(?:\.0*)?[ \t]*(?:;|$)")


def check_media(request: Request) -> None:
    """Refuse a message that is not JSON in UTF-8, or whose client takes none of our answers.

    Raises:
        Refused: one of these, as far as its headers say.
    """
    given = request.headers.get
    of = given(b"content-type", b""), given(b"content-encoding"), given(b"accept", b"")
    if (refusal := _refusal(*of)) is not None:
        raise Refused(*refusal)


# Most clients send the same with every request.
@functools.lru_cache(maxsize=256)
def _refusal(kind: bytes, encoding: bytes | None, accepted: bytes) -> tuple[int, str] | None:
    if not _is_json(kind):
        return 415, "the body has to be application/json in UTF-8"
    if encoding not in (None, b"identity"):
        return 415, "the body has to come as it is, without Content-Encoding"
    if not (_accepts(accepted, JSON) or _accepts(accepted, STREAM)):
        return 406, "answers are application/json or text/event-stream"
    return None


def _is_json(given: bytes) -> bool:
    kind, _, parameters = given.decode("latin-1").lower().partition(";")
    return kind.strip() == JSON and _charset(parameters) in ("", "utf-8", "utf8")


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"')
    return ""


def accepts(request: Request, wanted: str) -> bool:
    """Tell whether a client takes answers of a type; one that does not say takes all."""
    return _accepts(request.headers.get(b"accept", b""), wanted)


@functools.lru_cache(maxsize=256)
def _accepts(header: bytes, wanted: str) -> bool:
    given = header.decode("latin-1").strip(" \t").lower()
    if not given:
        return True
    taken: dict[str, bool] = {}
    for each in given.split(","):
        name, _, parameters = each.partition(";")
        taken[name.strip()] = not _REFUSED.search(parameters)
    kind = wanted.partition("/")[0]
    return next((taken[name] for name in (wanted, f"{kind}/*", "*/*") if name in taken), False)
