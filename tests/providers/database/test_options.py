from __future__ import annotations

import pytest

from resource_server.providers.database.options import ChangeHint, ColumnOptions, TableOptions
from tests.cases import for_each


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="mask: 'email' is hidden"):
        ColumnOptions(hide=("email",), mask={"email": "hash"})
    with pytest.raises(ValueError, match="hide: 'a' is given twice"):
        ColumnOptions(hide=("a", "a"))
    with pytest.raises(ValueError, match="key: '' is not a column name"):
        TableOptions(key=("",))
    with pytest.raises(ValueError, match="where: is empty"):
        TableOptions(where=" ")
    with pytest.raises(ValueError, match="column: '' is not a column name"):
        ChangeHint(column="")


@for_each("names", [("",), ("a", "a")])
def test_duplicate_search_columns_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="search: '"):
        TableOptions(search=names)
