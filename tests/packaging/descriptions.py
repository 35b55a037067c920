"""Generated descriptions: `server.json`, the bundle's manifest, marks in README and Dockerfile."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.packaging.facts import ROOT, Facts

SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_MARK = re.compile(r"<!-- mcp-name: .* -->\n")
_LABELS = re.compile(r"^LABEL (?:.*\\\n)*.*\n", re.MULTILINE)


def texts(facts: Facts, root: Path = ROOT) -> dict[Path, str]:
    """Return each generated file with its text."""
    readme, dockerfile = root / "README.md", root / "Dockerfile"
    return {
        root / "server.json": _json(server_json(facts)),
        root / "mcpb/manifest.json": _json(bundle_manifest(facts)),
        readme: _marked(readme.read_text("utf-8"), facts),
        dockerfile: _labelled(dockerfile.read_text("utf-8"), facts),
    }


def server_json(facts: Facts, *, bundle_sha256: str | None = None) -> dict[str, Any]:
    """Return the entry of the MCP registry; with the bundle of a release if its digest is given."""
    stdio = {"type": "stdio"}
    serve = {"type": "positional", "value": "serve"}
    source: dict[str, Any] = {
        "type": "positional",
        "valueHint": "source",
        "description": "Folder, manifest, database file or database URL",
        "format": "filepath",
        "isRequired": True,
        "isRepeated": True,
    }
    folder = {
        "description": "Folder to serve, read-only",
        "format": "filepath",
        "isRequired": True,
    }
    mount: dict[str, Any] = {
        "type": "named",
        "name": "--mount",
        "value": "type=bind,src={folder},dst=/data,readonly",
        "variables": {"folder": folder},
    }
    packages: list[dict[str, Any]] = [
        {
            "registryType": "pypi",
            "identifier": facts.name,
            "version": facts.version,
            "runtimeHint": "uvx",
            "transport": stdio,
            "packageArguments": [serve, source],
        },
        {
            # Its tag is the version: the registry takes no `version` for images.
            "registryType": "oci",
            "identifier": f"{facts.image}:{facts.version}",
            "runtimeHint": "docker",
            "transport": stdio,
            "runtimeArguments": [mount],
            "packageArguments": [serve, {"type": "positional", "value": "/data"}],
        },
    ]
    if bundle_sha256 is not None:
        bundle = f"{facts.repository}/releases/download/v{facts.version}/{facts.name}.mcpb"
        packages.append(
            {
                "registryType": "mcpb",
                "identifier": bundle,
                "fileSha256": bundle_sha256,
                "transport": stdio,
            }
        )
    return {
        "$schema": SERVER_SCHEMA,
        "name": facts.mcp_name,
        "title": facts.name,
        "description": facts.description,
        "version": facts.version,
        "websiteUrl": facts.repository,
        "repository": {"url": facts.repository, "source": "github"},
        "packages": packages,
    }


def bundle_manifest(facts: Facts) -> dict[str, Any]:
    """Return the manifest of the MCPB bundle, which a host runs by its own uv."""
    command = ["run", "--directory", "${__dirname}", "--extra", "documents", facts.name, "serve"]
    folders = {
        "type": "directory",
        "title": "Folders",
        "description": "Folders to serve, read-only. Secrets and ignored files stay hidden.",
        "multiple": True,
        "required": True,
    }
    return {
        "manifest_version": "0.4",
        "name": facts.name,
        "display_name": facts.name,
        "version": facts.version,
        "description": facts.description,
        "author": {"name": facts.author},
        "repository": {"type": "git", "url": facts.repository},
        "homepage": facts.repository,
        "documentation": facts.urls["Documentation"],
        "support": facts.urls["Issues"],
        "server": {
            "type": "uv",
            "entry_point": "resource_server/__main__.py",
            # Several folders become several arguments.
            "mcp_config": {"command": "uv", "args": [*command, "${user_config.folders}"]},
        },
        "tools_generated": True,
        "prompts_generated": True,
        "keywords": list(facts.keywords),
        "license": facts.license,
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": facts.python},
        },
        "user_config": {"folders": folders},
    }


def _marked(readme: str, facts: Facts) -> str:
    """Return the README with the line by which the registry finds it in the published package."""
    return f"{_MARK.sub('', readme).rstrip()}\n\n<!-- mcp-name: {facts.mcp_name} -->\n"


def labels(facts: Facts) -> dict[str, str]:
    """Return the labels of the container image."""
    return {
        "org.opencontainers.image.title": facts.name,
        "org.opencontainers.image.description": facts.description,
        "org.opencontainers.image.version": facts.version,
        "org.opencontainers.image.licenses": facts.license,
        "org.opencontainers.image.source": facts.repository,
        "org.opencontainers.image.documentation": facts.urls["Documentation"],
        # By this, the MCP registry knows whose image it is.
        "io.modelcontextprotocol.server.name": facts.mcp_name,
    }


def _labelled(dockerfile: str, facts: Facts) -> str:
    pairs = (f"{name}={json.dumps(value)}" for name, value in labels(facts).items())
    instruction = "LABEL " + " \\\n      ".join(pairs) + "\n"
    return _LABELS.sub(lambda _: instruction, dockerfile)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
