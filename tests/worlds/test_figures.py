from __future__ import annotations

from pathlib import Path

from tests.worlds.figures import figures, record


def test_a_search_takes_the_place_of_the_last_one_of_its_property(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text(
        '{"rows": {"date": "2026-01-31", "seeds": "1 to 2", "cases": 3, "note": "slow"}}'
    )
    assert figures("rows", file) == "`rows`, 2026-01-31: seeds 1 to 2, 3 cases; slow"
    record("rows", "4 to 9", 1200, {"requests": 34567}, file)
    assert figures("rows", file).endswith(": seeds 4 to 9, 1,200 cases, 34,567 requests")
