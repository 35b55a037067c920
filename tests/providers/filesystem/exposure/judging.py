"""Decisions of exposure rules for whole paths."""

from __future__ import annotations

from collections.abc import Iterable

from resource_server.providers.filesystem.exposure.rules import (
    DirectoryRules,
    ExposureRules,
)

SHOWN = DirectoryRules(hidden=True)


def hidden_by(
    rules: DirectoryRules, path: str, exposure: ExposureRules | None = None
) -> str | None:
    """Return what hides a path, as met from the root down; a final slash makes it a directory."""
    exposure = exposure or ExposureRules({})
    *folders, last = path.split("/") if not path.endswith("/") else [*path[:-1].split("/"), ""]
    prefix = ""
    for folder in folders:
        reason = exposure.hidden_by(rules, prefix, folder, is_directory=True)
        if reason:
            return reason
        rules = exposure.enter(rules, prefix + folder)
        prefix += f"{folder}/"
    return exposure.hidden_by(rules, prefix, last, is_directory=False) if last else None


def shown(
    rules: DirectoryRules, paths: Iterable[str], exposure: ExposureRules | None = None
) -> list[str]:
    return [path for path in paths if hidden_by(rules, path, exposure) is None]
