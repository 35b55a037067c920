"""Files and databases as MCP resources, from one YAML manifest.

Other programs mount them by the public names here, which are imported when they are used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as type checkers take it; `typing` is for who needs it
if TYPE_CHECKING:
    from resource_server.access import Caller
    from resource_server.embedding.asgi import asgi_app
    from resource_server.errors import ManifestError

__all__ = ["Caller", "ManifestError", "__version__", "asgi_app"]

_MODULES = {
    "Caller": "access",
    "ManifestError": "errors",
    "asgi_app": "embedding.asgi",
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
