"""What a hostile document can do in a worker: nothing but be converted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError
from tests.conversion.pools import HOSTILE, LINUX, converted


@pytest.mark.guarantee("converters-are-confined")
@LINUX
@pytest.mark.parametrize(
    "deed",
    [
        *(
            "connect",
            "drown",
            "earlier",
            "eat",
            "exit",
            "fork",
            "kill",
            "limit",
            "loop",
            "name",
            "own",
        ),
        *("queue", "read", "run", "secrets", "share", "slow down", "write"),
    ],
)
def test_a_converter_can_do_nothing_but_convert(
    deed: str, pool: ConverterPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    begin = time.monotonic()
    with pytest.raises(ConversionError):
        converted(pool, tmp_path / "x", deed.encode(), HOSTILE)
    assert time.monotonic() - begin < 30
    assert pool.protections(HOSTILE) == ("landlock", "seccomp")
    assert not Path("/tmp/written-by-a-converter").exists()  # noqa: S108
    assert converted(pool, tmp_path / "x", b"fine", HOSTILE) == ["fine"]


@pytest.mark.guarantee("converters-are-confined")
@LINUX
@pytest.mark.parametrize(
    "change",
    ["attribute", "date", "empty", "give", "link", "move", "open", "permit", "remove"],
)
def test_a_converter_changes_no_file(
    change: str, pool: ConverterPool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    other.write_text("text")
    before = other.stat()
    with pytest.raises(ConversionError, match="for a reason that the server's log has"):
        converted(pool, tmp_path / "x", f"{change}\n{other}".encode(), HOSTILE)
    assert "PermissionError" in caplog.text
    after = other.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
    assert other.read_text() == "text"


@pytest.mark.guarantee("converters-are-confined")
@LINUX
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")
def test_a_converter_has_no_rights_of_root_but_to_read(pool: ConverterPool, tmp_path: Path) -> None:
    converted(pool, tmp_path / "x", b"fine", HOSTILE)
    (process,) = pool.processes
    status = Path(f"/proc/{process}/status").read_text()
    rights = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))
    assert {int(rights[name], 16) & ~(1 << 2) for name in ("CapInh", "CapPrm", "CapEff")} == {0}
