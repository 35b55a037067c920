"""A commented manifest for a folder, to begin with."""

from __future__ import annotations

import json
import pathlib

from resource_server.manifest.sources import mount_name

SCHEMA_NAME = "mcp-resources.schema.json"

_TEMPLATE = """\
# yaml-language-server: $schema=./{schema}
# Editors check and complete this file: resource-server schema > {schema}
version: 1

roots:
  {name}:
    path: .                         # relative to this file; URIs are file:///{name}/...
    title: {title}
    # Not served by default: what .gitignore, .ignore and .mcpignore files leave out, names that
    # begin with a dot, secrets such as .env, private keys and credentials, symbolic links.
    # `resource-server check` lists what is hidden here, and `check --explain URI` says why.
    # exclude: ["*.log", "build/"]  # more to leave out, as in .gitignore
    # gitignore: false              # serve what is ignored
    # hidden: true                  # serve names that begin with a dot; secrets stay hidden
    # max_size: 10MiB               # larger documents are read in ranges
    # directories:                  # other rules for a folder in here
    #   docs: {{title: Documentation, annotations: {{priority: 0.9}}}}
    #   drafts: {{listed: false}}
"""


def write(folder: pathlib.Path) -> str:
    """Return the text of a manifest that serves `folder` and lies in it."""
    name, title = mount_name(folder)
    title = "".join(c if c.isprintable() else "\ufffd" for c in title)
    # In YAML a JSON string means the same, unless it escapes emoji as surrogates.
    quoted = json.dumps(title.replace("${", "$${"), ensure_ascii=False)
    return _TEMPLATE.format(schema=SCHEMA_NAME, name=name, title=quoted)
