"""`python -m tests.packaging`: writes what describes the packages, and prepares their release.

Needs nothing but Python, so that a release runs it from a clone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from pathlib import Path

from tests.packaging import descriptions
from tests.packaging.facts import PLACEHOLDER, ROOT, read_facts

BUNDLED = ("LICENSE", "README.md", "examples/shop", "pyproject.toml", "resource_server")
"""Files and folders that the bundle is built from."""
NAMES_OWNER = ("pyproject.toml", ".github/ISSUE_TEMPLATE/config.yml")
"""Files that name the owner and are not generated."""


def write() -> None:
    """Write all descriptions anew."""
    for file, text in descriptions.texts(read_facts()).items():
        file.write_text(text, "utf-8")


def set_owner(name: str, root: Path = ROOT) -> None:
    """Replace the placeholder of the repository's owner everywhere."""
    for each in NAMES_OWNER:
        file = root / each
        file.write_text(file.read_text("utf-8").replace(PLACEHOLDER, name), "utf-8")
    for file, text in descriptions.texts(read_facts(root), root).items():
        file.write_text(text, "utf-8")


def stage_bundle(folder: Path) -> None:
    """Copy what belongs into the MCPB bundle to a new folder, for `mcpb pack`."""
    folder.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.db")
    for name in BUNDLED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "mcpb/manifest.json", folder)


def add_bundle(bundle: Path, output: Path) -> None:
    """Write `server.json` of a release, which has the digest of its bundle."""
    digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
    entry = descriptions.server_json(read_facts(), bundle_sha256=digest)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(entry, indent=2), "utf-8")


def release_problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what keeps a tag from being released."""
    facts = read_facts(root)
    problems: list[str] = []
    if facts.owner == PLACEHOLDER:
        problems.append("the owner is not set; run: python -m tests.packaging owner NAME")
    if tag != f"v{facts.version}":
        problems.append(f"the tag is {tag}, and the version {facts.version}")
    if f"\n## [{facts.version}]" not in (root / "CHANGELOG.md").read_text("utf-8"):
        problems.append(f"CHANGELOG.md has no section [{facts.version}]")
    for file, text in descriptions.texts(facts, root).items():
        if file.read_text("utf-8") != text:
            problems.append(f"{file.name} is stale; run: python -m tests.packaging")
    return problems


def main() -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("owner", help=set_owner.__doc__).add_argument("name")
    commands.add_parser("bundle", help=stage_bundle.__doc__).add_argument("folder", type=Path)
    registry = commands.add_parser("registry", help=add_bundle.__doc__)
    registry.add_argument("bundle", type=Path)
    registry.add_argument("output", type=Path)
    commands.add_parser("release", help=release_problems.__doc__).add_argument("tag")
    given = parser.parse_args()
    match given.command:
        case "owner":
            set_owner(given.name)
        case "bundle":
            stage_bundle(given.folder)
        case "registry":
            add_bundle(given.bundle, given.output)
        case "release":
            problems = release_problems(given.tag)
            sys.stderr.writelines(f"{each}\n" for each in problems)
            return min(len(problems), 1)
        case _:
            write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
