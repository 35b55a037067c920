"""The manifest: from YAML to validated, frozen values; diagnostics; JSON Schema.

Importing this package loads neither YAML nor pydantic; only the modules that need them do.
"""

from resource_server.manifest.data import Positions
from resource_server.manifest.model import (
    Cache,
    CollectionLimits,
    Manifest,
    MountOptions,
    MountSpec,
    ServerOptions,
)
from resource_server.runtime.option_types import Duration

__all__ = [
    "Cache",
    "CollectionLimits",
    "Duration",
    "Manifest",
    "MountOptions",
    "MountSpec",
    "Positions",
    "ServerOptions",
]
