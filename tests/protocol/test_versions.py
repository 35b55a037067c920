"""What a connection remembers of the versions that were read."""

from __future__ import annotations

from resource_server.protocol.versions import MIN_KEPT, Versions


def test_the_version_read_last_is_remembered() -> None:
    versions = Versions()
    for version in ("1", "2"):
        versions.put("test://one/a", version)
    assert versions.get("test://one/a") == "2"
    assert versions.get("test://one/b") is None


def test_even_an_empty_version_is_one() -> None:
    versions = Versions()
    versions.put("test://one/a", "1")
    for number in range(MIN_KEPT):
        versions.put(str(number), "x")
    versions.put("test://one/a", "")
    assert versions.get("test://one/a") == ""


def test_the_last_reads_are_remembered_and_old_ones_forgotten() -> None:
    versions = Versions()
    for number in range(10 * MIN_KEPT):
        versions.put(str(number), str(number))
        if number >= MIN_KEPT:
            assert versions.get(str(number - MIN_KEPT + 1)) == str(number - MIN_KEPT + 1)
    assert sum(versions.get(str(number)) is not None for number in range(10 * MIN_KEPT)) <= (
        2 * MIN_KEPT
    )
