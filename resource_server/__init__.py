"""Files and databases as MCP resources, from one YAML manifest.

Other programs mount them by the public names here, which are imported when they are used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as type checkers take it; `typing` is for who needs it
if TYPE_CHECKING:
    from resource_server.access import Caller
    from resource_server.embedding import fastmcp as fastmcp
    from resource_server.embedding import sdk as sdk
    from resource_server.embedding.asgi import asgi_app
    from resource_server.embedding.resource_client import ResourceClient, connect
    from resource_server.errors import ManifestError
    from resource_server.protocol.in_process_client import ErrorReply

__all__ = [
    "Caller",
    "ErrorReply",
    "ManifestError",
    "ResourceClient",
    "__version__",
    "asgi_app",
    "connect",
    "fastmcp",
    "sdk",
]

_MODULES = {
    "Caller": "access",
    "ErrorReply": "protocol.in_process_client",
    "ManifestError": "errors",
    "ResourceClient": "embedding.resource_client",
    "asgi_app": "embedding.asgi",
    "connect": "embedding.resource_client",
    "fastmcp": "embedding.fastmcp",
    "sdk": "embedding.sdk",
}
"""The module of each public name, which may be the module itself."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_MODULES[name]}")
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)
