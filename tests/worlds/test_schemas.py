from __future__ import annotations

import math

import pytest

from tests.worlds.column_types import EngineName
from tests.worlds.databases import ENGINES, NoServer, Schema, shared_database
from tests.worlds.harness import Property, Tally, search
from tests.worlds.schemas import schemas


@pytest.mark.deep
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_accepts_most_generated_relations_with_their_rows(engine: EngineName) -> None:
    async def build(schema: Schema, tally: Tally) -> None:
        try:
            database = await shared_database(engine)
        except NoServer as error:
            tally.count(str(error))
            return
        for relation in await database.build(schema):
            found = await database.rows(f"SELECT tag FROM {database.quoted(relation.name)}")  # noqa: S608
            tally.count("built")
            tally.count("rows", len(found))
        tally.count("generated", len(schema.relations))

    report = search(
        Property(name="schemas", cases=schemas([engine]), check=build), 1, math.inf, most=40
    )
    counts = report.tally.counts
    if "generated" not in counts:
        pytest.skip(f"no server: {report.tally}")
    assert report.violation is None, report.violation
    assert counts["built"] > 0.6 * counts["generated"]
    assert counts["rows"] > counts["built"]
