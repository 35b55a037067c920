"""The tables of docs/hosts.md: which host can do what with this server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/hosts.md"
SECTION = "hosts"
ABILITIES = {
    "connects": "revision",
    "lists": "lists",
    "large": "100,000 files",
    "reads": "reads",
    "images": "images",
    "folders": "folders",
    "templates": "templates",
    "changes": "follows changes of",
    "tools": "its model gets of tools",
}
"""Abilities that the scripts check, and their headings."""


def table(hosts: Iterable[Any]) -> str:
    """Return the section of the page, from what the scripts printed."""
    replayed = list(hosts)
    lines = [_row("host", *ABILITIES.values()), _row(*["---"] * (len(ABILITIES) + 1))]
    for host in replayed:
        cells = (host["abilities"].get(ability, "no") for ability in ABILITIES)
        lines.append(_row(host["name"], *cells))
    lines += ["", "Limits of the hosts themselves, each found in the replay:", ""]
    limits: dict[str, list[str]] = {}
    for host in replayed:
        for limit in host["limits"].values():
            limits.setdefault(limit, []).append(host["name"])
    lines += [f"* **{', '.join(names)}.** {limit}" for limit, names in limits.items()]
    return "\n".join([*lines, ""])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
