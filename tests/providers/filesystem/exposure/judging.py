"""Decisions of exposure rules for whole paths."""

from __future__ import annotations

from collections.abc import Iterable

from resource_server.providers.filesystem.exposure.rules import (
    DirectoryRules,
    ExposureRules,
)

SHOWN = DirectoryRules(hidden=True)


def hidden_by(scope: DirectoryRules, path: str, rules: ExposureRules | None = None) -> str | None:
    """Return what hides a path, as met from the root down; a final slash makes it a directory."""
    rules = rules or ExposureRules({})
    *folders, last = path.split("/") if not path.endswith("/") else [*path[:-1].split("/"), ""]
    prefix = ""
    for folder in folders:
        reason = rules.hidden_by(scope, prefix, folder, is_directory=True)
        if reason:
            return reason
        scope = rules.enter(scope, prefix + folder)
        prefix += f"{folder}/"
    return rules.hidden_by(scope, prefix, last, is_directory=False) if last else None


def shown(
    scope: DirectoryRules, paths: Iterable[str], rules: ExposureRules | None = None
) -> list[str]:
    return [path for path in paths if hidden_by(scope, path, rules) is None]
