"""Packs the documents and sources of the project beside into `release.zip`, always alike."""

from __future__ import annotations

import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parent / "project"
RELEASED = ("README.md", "docs", "src", "assets")


def main(archive: Path = HERE / "release.zip") -> None:
    """Write the archive: sorted, dated at the release, owned by nobody."""
    files = [file for name in RELEASED for file in (PROJECT / name, *(PROJECT / name).rglob("*"))]
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted(file for file in files if file.is_file()):
            if file.suffix != ".pyc":
                member = zipfile.ZipInfo(
                    file.relative_to(PROJECT).as_posix(), (2026, 11, 20, 0, 0, 0)
                )
                packed.writestr(member, file.read_bytes(), zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
