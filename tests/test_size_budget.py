"""Each subsystem has at most the lines that CONTRIBUTING.md gives it.

`python -m tests.test_size_budget` prints the lines of each.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "resource_server"
ROW = re.compile(r"^\| (`[a-z_/`., ]+`) \| ([0-9,]+) \|", re.MULTILINE)


def budgets() -> dict[tuple[str, ...], int]:
    """Return the budget of each subsystem by its folder, or by its modules."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    _, _, section = text.partition("## The budget\n")
    return {
        tuple(re.findall(r"[\w/.]+", names)): int(lines.replace(",", ""))
        for names, lines in ROW.findall(section.partition("\n## ")[0])
    }


def sizes() -> Counter[tuple[str, ...]]:
    """Return the lines of each subsystem; a module counts for the innermost folder of its own."""
    every = budgets()
    found = Counter[tuple[str, ...]]()
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).as_posix()
        holders = [(len(each), names) for names in every for each in names if name.startswith(each)]
        if holders:
            found[max(holders)[1]] += len(file.read_text("utf-8").splitlines())
        else:
            assert name in ("__init__.py", "__main__.py", "providers/__init__.py"), name
    return found


def table() -> str:
    found = sizes()
    return "\n".join(
        f"{found[names]:7,} of {budget:7,}  {', '.join(names)}"
        for names, budget in budgets().items()
    )


def test_no_subsystem_exceeds_its_budget() -> None:
    found = sizes()
    over = [names for names, budget in budgets().items() if found[names] > budget]
    assert not over, f"remove lines, or raise the budget with a reason:\n{table()}"


def test_every_subsystem_of_the_budget_has_modules() -> None:
    assert set(budgets()) == set(sizes())


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
