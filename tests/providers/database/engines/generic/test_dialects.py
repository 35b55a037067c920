from __future__ import annotations

import string

from resource_server.providers.database.engines.generic.dialect_url import scheme_of
from resource_server.providers.database.engines.generic.dialects import DIALECTS, UNKNOWN, known
from tests.cases import for_each


def _fields(text: str) -> set[str]:
    return {name for _, name, *_ in string.Formatter().parse(text) if name is not None}


def test_a_dialect_is_known_by_its_name_with_that_of_a_driver() -> None:
    assert known("redshift.redshift_connector") is DIALECTS["redshift"]
    assert [known(each) for each in ("", ".mysql", "MYSQL")] == [UNKNOWN] * 3


def test_nothing_is_promised_of_a_dialect_that_is_not_known() -> None:
    promises = UNKNOWN.is_read_only, UNKNOWN.enforces_keys, UNKNOWN.compares_large
    assert not any(promises)
    assert UNKNOWN.exact is None
    assert UNKNOWN.nulls is None
    assert UNKNOWN.text_order == "unknown"


@for_each("name", DIALECTS)
def test_sql_of_a_dialect_has_the_fields_that_are_filled_in(name: str) -> None:
    dialect = DIALECTS[name]
    assert all(not _fields(each) for each in dialect.session)
    assert all(_fields(each) <= {"ms", "seconds"} for each in dialect.transaction)
    if dialect.exact is not None:
        assert _fields(dialect.exact.column) - {"length", "bytes", "charset"} == {"column"}
        assert len(_fields(dialect.exact.text) & {"literal", "hex"}) == 1
        around = "".join(dialect.exact.parameter)
        assert around.count("(") == around.count(")")


@for_each("name", DIALECTS)
def test_a_tested_dialect_is_read_only_and_compares_claims(name: str) -> None:
    dialect = DIALECTS[name]
    assert dialect.drivers
    assert scheme_of(f"{name}://h")[0] == name  # no alias hides it
    if dialect.status == "tested":
        assert dialect.is_read_only
        assert dialect.enforces_keys
        assert dialect.exact is not None
        assert not dialect.fails
