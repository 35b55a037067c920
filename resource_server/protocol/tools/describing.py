"""`resource_metadata`: what is known of a resource without reading it."""

from __future__ import annotations

import msgspec

from resource_server.protocol import blocks, encode
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools import outcome


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Its arguments."""

    uri: str


async def resource_metadata(call: Call, asked: Asked) -> Result:
    """Describe a resource."""
    described = encode.resource(await call.server.catalog.metadata(asked.uri))
    return outcome.result(call, [blocks.text(described.decode())], b'{"resource":%b}' % described)
