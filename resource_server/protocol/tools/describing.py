"""`resource_metadata`: what is known of a resource without reading it."""

from __future__ import annotations

import msgspec

from resource_server.protocol import content_blocks, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools import results


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Its arguments."""

    uri: str


async def resource_metadata(call: Call, asked: Asked) -> Result:
    """Describe a resource."""
    described = serialization.resource(await call.server.catalog.metadata(asked.uri))
    return results.result(
        call, [content_blocks.text(described.decode())], b'{"resource":%b}' % described
    )
