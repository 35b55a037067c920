"""The loader of providers: built-in classes, entry points of packages, and `.py` files.

A plugin is code that runs with the user's rights. It is loaded only if a manifest names it; folders
are never scanned. A file is loaded once per path, under a private module name.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import os
import pathlib
import sys
import traceback
from collections.abc import Generator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from resource_server.manifest import Manifest, MountSpec, provider_references, sources
from resource_server.manifest.data import Problems
from resource_server.manifest.wording import one_line, printable
from resource_server.provider import Provider
from resource_server.runtime.near_name import did_you_mean

if TYPE_CHECKING:
    from resource_server.manifest.decode import FindClass

_REQUIRED = ("templates", "list", "metadata", "read")


class _Withholding(Protocol):
    """The part of the built-in provider of folders that hides files under every name."""

    def withhold(self, files: Mapping[str, str]) -> None: ...


def find_with_plugins(source: str | None = None, *, allow_plugins: bool = True) -> Manifest:
    """Return the manifest of a source, with the options of every provider validated.

    The modules of plugins are imported for their options, if plugins are allowed.

    Raises:
        ManifestError: carries all problems, also those of plugins.
    """
    return sources.find_manifest(source, find_class=class_finder(allow_plugins=allow_plugins))


def load_provider(spec: MountSpec, manifest: Manifest, *, allow_plugins: bool = True) -> Provider:
    """Return the provider of a mount, constructed from its options but not entered.

    Raises:
        ManifestError: the provider does not exist or cannot be imported, or its options are
            invalid.
    """
    if not isinstance(spec.use, str):
        return spec.use
    # Imported late: serving a folder does not need pydantic.
    from resource_server.manifest.decode import Decoder

    origin = spec.origin or manifest
    positions = origin.positions
    problems = Problems(positions.file or f"mount {spec.name}")
    decoder = Decoder(origin.directory, positions, problems)
    find_class = class_finder(allow_plugins=allow_plugins)
    provider = decoder.provider(spec.use, spec.options, spec.path, find_class)
    problems.raise_any()
    if spec.withheld:
        cast("_Withholding", provider).withhold(spec.withheld)
    return cast("Provider", provider)


def class_finder(*, allow_plugins: bool) -> FindClass:
    """Return the function that imports the class of a provider reference."""

    def find_class(reference: str, directory: pathlib.Path) -> type:
        built_in = provider_references.built_in(reference)
        if built_in is not None:
            return built_in
        provider_references.check_reference(reference)
        if not allow_plugins:
            raise ValueError(f"'{printable(reference)}' is a plugin, and plugins are not allowed")
        named = provider_references.FILE.fullmatch(reference)
        if named is None:
            return _installed_class(reference)
        file, class_name = named.groups()
        return _only_class(_module(directory / file, file), class_name, file)

    return find_class


def _installed_class(name: str) -> type:
    entry = provider_references.installed()[name]
    with _import_errors(f"provider '{name}' ({entry.value})"):
        found = entry.load()
    if isinstance(found, ModuleType):
        return _only_class(found, None, entry.value)
    if isinstance(found, type):
        return _checked(found, entry.value)
    raise ValueError(f"provider '{name}' ({entry.value}) is not a class")


def _module(path: pathlib.Path, named: str) -> ModuleType:
    try:
        if not path.is_file():
            raise ValueError(f"no such file: '{printable(named)}'")
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise ValueError(f"'{printable(named)}' cannot be read: {reason}") from error
    file = os.path.realpath(path)
    # Private, so as not to shadow a package; registered, since dataclasses look up their module.
    name = f"_resource_server_plugin_{hashlib.sha256(os.fsencode(file)).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"'{printable(named)}' cannot be loaded as Python")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _import_errors(printable(named), file):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def _import_errors(named: str, file: str | None = None) -> Generator[None]:
    """Turn any exception of a plugin's import into a ValueError with its position."""
    try:
        # Standard output may carry the protocol.
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SyntaxError as error:
        place = f"{named}:{error.lineno}" if error.lineno else named
        raise ValueError(f"{place}: {error.msg}") from error
    except ModuleNotFoundError as error:
        # Imported here: it loads much, and few processes need it.
        from resource_server.runtime import installation

        raise ValueError(
            f"{named} needs the module '{error.name}', which is not installed; "
            f"install the package that has it: {installation.detect().package_command('PACKAGE')}"
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        place = f"{named}:{lines[-1]}" if lines else named
        raise ValueError(f"{place}: {type(error).__name__}: {one_line(error)}") from error


def _only_class(module: ModuleType, name: str | None, named: str) -> type:
    """Return the provider class of a module: the named one, or the only one."""
    classes: dict[str, type] = {}
    for key, value in vars(module).items():
        is_own = isinstance(value, type) and value.__module__ == module.__name__
        # The first name counts, which need not be the class's own; the others are aliases.
        if is_own and not key.startswith("_") and value not in classes.values():
            classes[key] = value
    if name is not None:
        if name not in classes:
            raise ValueError(
                f"no class '{name}' in '{printable(named)}'{did_you_mean(name, classes)}"
            )
        return _checked(classes[name], named)
    complete = {key: value for key, value in classes.items() if not _lacks(value)}
    if len(complete) == 1:
        return next(iter(complete.values()))
    if complete:
        return _combined(complete, named)
    begun = [value for value in classes.values() if len(_lacks(value)) < len(_REQUIRED)]
    if len(begun) == 1:
        return _checked(begun[0], named)
    functions = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not key.startswith("_")
    ]
    hint = f"one has {', '.join(_REQUIRED)}"
    if functions and not classes:
        hint = (
            f"the function {functions[0]} becomes one by @documents, @document or @template of "
            "resource_server.provider.simple"
        )
    raise ValueError(f"no provider class in '{printable(named)}'; {hint}")


def _combined(classes: Mapping[str, type], named: str) -> type:
    """Combine the function providers of one file."""
    if all(getattr(cls, "is_combinable", False) for cls in classes.values()):
        # Imported by the plugin already.
        from resource_server.provider.simple import combined

        return combined([*classes.values()])
    names = [*classes]
    raise ValueError(
        f"several providers in '{printable(named)}': {', '.join(names)}; "
        f"name one: {printable(named)}:{names[0]}"
    )


def _checked(cls: type, named: str) -> type:
    if lacks := _lacks(cls):
        raise ValueError(f"class {cls.__name__} in '{printable(named)}' lacks {', '.join(lacks)}")
    return cls


def _lacks(cls: type) -> list[str]:
    """Return the required members that a class lacks."""
    # Dataclass fields without a default and fields of pydantic models are no class attributes.
    fields = {
        *getattr(cls, "__dataclass_fields__", ()),
        *getattr(cls, "__pydantic_fields__", ()),
    }
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return list(_REQUIRED)
    return [name for name in _REQUIRED if not hasattr(cls, name) and name not in fields]
