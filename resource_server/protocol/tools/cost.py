"""What tools cost a model before any is called: the tokens of their definitions."""

from __future__ import annotations

import msgspec

from resource_server.protocol.revisions import Revision
from resource_server.protocol.tools.registry import Toolbox

BYTES_A_TOKEN = 4.0
"""Definitions like these have 4.3 bytes a token (o200k_base) and 4.5 (cl100k_base), measured; other
vocabularies split finer. Hosts add words of their own, or leave out the schemas of results."""


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """How many tools there are, and about how many tokens it takes to tell of them."""

    count: int
    tokens: int


async def cost(toolbox: Toolbox, revision: Revision) -> Cost:
    """Return what a client is told in `tools/list`, all pages together."""
    offers = await toolbox.offers()
    told = b",".join(each.definition(revision) for each in offers.tools)
    return Cost(len(offers.tools), round(len(told) / BYTES_A_TOKEN))
