"""Manifests: generated options, and servers that are built from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import structs

from resource_server import plugins
from resource_server.protocol.server import Server
from resource_server.provider import Provider
from resource_server.runtime.timing import Timing
from resource_server.serving import server_builder
from tests.listeners import IMPATIENT

CACHE_S = 0.1
"""Time after which a change of a schema shows."""
PATIENT = msgspec.structs.replace(
    IMPATIENT,
    schema_cache_s=CACHE_S,
    row_count_cache_s=CACHE_S,
    row_count_s=30.0,
    search_count_s=30.0,
    statement_interval_s=1e-6,
    index_settle_s=0.01,
    index_retry_s=0.05,
)
"""Times with short caches, within which everything ends on a busy machine."""

_collection_read: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {}, optional={"children": st.sampled_from((1, 3)), "bytes": st.sampled_from((10, 2000))}
)
server_options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "page_size": st.sampled_from((1, 2, 3, 7)),
        "alternatives": st.just("inline"),
        "collection_read": _collection_read,
    },
)


def prompts_of(template: str) -> dict[str, Any]:
    """Return prompts that embed and complete the resources of a template."""
    return {
        "show": {
            "title": "Show",
            "arguments": {"what": {"required": True, "complete": template}},
            "messages": [
                {"resource": template.replace("path", "what")},
                {"text": "Explain {what}."},
            ],
        }
    }


def write(place: Path, manifest: Mapping[str, Any]) -> Path:
    """Write a manifest file and return its path."""
    path = place / "mcp-resources.json"
    path.write_text(json.dumps({"version": 1, **manifest}))
    return path


def build(path: Path, timing: Timing) -> Server:
    """Return the server of a manifest file, with these times in every part."""
    manifest = server_builder.load_manifest(str(path), allow_plugins=False)
    mounts = tuple(
        structs.replace(spec, use=_timed(plugins.load_provider(spec, manifest), timing))
        for spec in manifest.mounts
    )
    return server_builder.build_server(
        structs.replace(manifest, mounts=mounts), allow_plugins=False, timing=timing
    )


def _timed(provider: Provider, timing: Timing) -> Provider:
    # A subclass, so that narrowed copies have these times, too.
    timed = type("Timed", (type(provider),), {"timing": timing})
    options: Any = provider
    return timed(
        **{each.name: getattr(options, each.name) for each in fields(options) if each.init}
    )
