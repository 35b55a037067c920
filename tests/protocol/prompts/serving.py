"""A server of prompts over a tree, or over a folder, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.manifest.load import load
from resource_server.manifest.prompts import Prompt, PromptArgument, PromptMessage
from resource_server.protocol.server import Server, ServerLimits
from resource_server.provider import Provider
from resource_server.serving import server_builder


async def server_of(
    prompts: Mapping[str, Prompt],
    *providers: Provider,
    limits: CatalogLimits | None = None,
    server_limits: ServerLimits | None = None,
) -> Server:
    """Return a server of started mounts at `test://one/`, `test://two/` and of prompts."""
    mounts = [
        Mount(name, f"test://{name}/", provider)
        for name, provider in zip(("one", "two"), providers, strict=False)
    ]
    catalog = Catalog(mounts, limits)
    await catalog.start()
    return Server(catalog, prompts=prompts, limits=server_limits)


def folder_server(folder: Path, prompts: str, options: str = "") -> Server:
    """Return a server of a folder at `file:///p/`, with prompts as a manifest has them."""
    file = folder.parent / "m.yaml"
    root = f"roots: {{p: {{path: '{folder}', {options}}}}}\n"
    file.write_text(f"{root}prompts:\n{prompts}", "utf-8")
    return server_builder.build_server(load(file), allow_plugins=False)


def reading(
    template: str, *texts: str, arguments: Mapping[str, PromptArgument] | None = None
) -> dict[str, Prompt]:
    """Return one prompt `p` that reads a resource, and then says some texts."""
    if arguments is None:
        arguments = {"file": PromptArgument(required=True)}
    said = [PromptMessage(text=text) for text in texts]
    messages = (PromptMessage(resource=template), *said)
    return {"p": Prompt(description="reads", arguments=arguments, messages=messages)}


def got(name: str = "p", **arguments: str) -> tuple[str, dict[str, Any]]:
    """Return the method and parameters that ask for a prompt."""
    return "prompts/get", {"name": name, "arguments": arguments}
