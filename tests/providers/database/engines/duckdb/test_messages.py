"""Values on their way between the server and a worker of DuckDB."""

from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.duckdb.messages import travelled

PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.dates(),
    st.times(),
    st.datetimes(timezones=st.sampled_from((None, UTC))),
)
VALUES = st.recursive(PLAIN, lambda each: st.lists(each) | st.dictionaries(st.text(), each))


@given(VALUES)
def test_a_value_arrives_as_it_was_sent(value: object) -> None:
    found = travelled(value)
    assert found == value
    assert type(found) is type(value)
