"""*One file, three readings*: as a document, as a table, and as it was written.

A case is a mount of generated files, whose values are known. The table, through the server and page
by page, has the rows and values of the document; both have those that were written, unless the file
was damaged after that.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import tempfile
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote
from xml.sax.saxutils import escape

import duckdb
import pytest
from hypothesis import strategies as st

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.conversion.formats import delimited, parquet, sheets
from resource_server.errors import ConversionError, MountUnavailable, ResourceUnreadable
from resource_server.provider.conversion import ConversionRequest
from resource_server.providers.database.engines.duckdb.current_worker import CurrentWorker
from resource_server.providers.database.engines.duckdb.messages import Run, RunFailed, RunResult
from tests.conversion.portable import xlsx
from tests.listeners import mounted
from tests.providers.database.engines.duckdb.spreadsheets import ods
from tests.providers.database.served import FRESH, Served, timed_database
from tests.worlds.harness import Property, Tally, Violation

_MEDIA_TYPES: Final = {"csv": "text/csv", "tsv": "text/tab-separated-values", "jsonl": "json"}
_SHEET_KINDS: Final = ("xlsx", "ods")


@dataclass(frozen=True, kw_only=True)
class Written:
    """A file, as it is written."""

    kind: str
    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    delimiter: str = ","
    quotes_all: bool = False
    end: str = "\n"
    encoding: str = "utf-8"
    above: str = ""
    """Lines above the header of CSV."""
    late: int = 0
    """How often the first row is repeated, so that the others come late."""
    damage: tuple[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of a mount."""

    files: tuple[Written, ...]


# -- written


def _all_rows(file: Written) -> list[tuple[Any, ...]]:
    return [*file.rows[:1] * (file.late + 1), *file.rows[1:]]


def _bytes(file: Written) -> bytes:
    data = _WRITERS[file.kind](file)
    match file.damage:
        case ("cut", at):
            return data[: at % (len(data) + 1)]
        case ("flip", at):
            place = at % max(len(data), 1)
            return data[:place] + bytes([data[place] ^ 1 << at % 8]) + data[place + 1 :]
        case (str(sign), at):
            place = at % (len(data) + 1)
            return data[:place] + sign.encode() + data[place:]
        case _:
            return data


def _csv(file: Written) -> bytes:
    delimiter = "\t" if file.kind == "tsv" else file.delimiter
    target = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if file.quotes_all else csv.QUOTE_MINIMAL
    writer = csv.writer(target, delimiter=delimiter, quoting=quoting, lineterminator=file.end)
    target.write(file.above.replace("\n", file.end))
    writer.writerow(file.names)
    writer.writerows(_all_rows(file))
    data = target.getvalue().encode(file.encoding)
    return gzip.compress(data) if file.kind == "csv.gz" else data


def _json(file: Written) -> bytes:
    members = [dict(zip(file.names, row, strict=False)) for row in _all_rows(file)]
    lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in members]
    return "".join(lines).encode("utf-8", "replace")


def _xlsx(file: Written) -> bytes:
    rows = [file.names, *_all_rows(file)]
    cells = [
        "".join(_xlsx_cell(cell, chr(65 + place), at) for place, cell in enumerate(row))
        for at, row in enumerate(rows, 1)
    ]
    return xlsx("".join(f'<row r="{at}">{row}</row>' for at, row in enumerate(cells, 1)))


def _xlsx_cell(cell: object, column: str, row: int) -> str:
    place = f'r="{column}{row}"'
    if isinstance(cell, bool):
        return f'<c {place} t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, int | float):
        return f"<c {place}><v>{cell!r}</v></c>"
    text = f'<is><t xml:space="preserve">{escape(str(cell))}</t></is>'
    return f'<c {place} t="inlineStr">{text}</c>' if cell not in (None, "") else ""


def _ods(file: Written) -> bytes:
    return ods([file.names, *_all_rows(file)])


def _parquet(file: Written) -> bytes:
    columns = list(zip(*_all_rows(file), strict=True))
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        target = f"{folder}/written"
        listed = ", ".join(
            f'unnest(?::{_PARQUET_TYPES[at % 4]}[]) AS "{name}"'
            for at, name in enumerate(file.names)
        )
        database.execute(
            f"COPY (SELECT {listed}) TO '{target}' (FORMAT parquet)", list(map(list, columns))
        )
        return Path(target).read_bytes()


_PARQUET_TYPES: Final = ("BIGINT", "VARCHAR", "DOUBLE", "BOOLEAN")
_WRITERS = {
    **{"csv": _csv, "csv.gz": _csv, "tsv": _csv, "jsonl": _json},
    **{"xlsx": _xlsx, "ods": _ods, "parquet": _parquet},
}


# -- read as documents


def _document(path: Path, file: Written) -> list[list[Any]] | None:
    """Return the rows of the document; None if it cannot be converted."""
    media_type = _MEDIA_TYPES.get(file.kind.removesuffix(".gz"), "")
    name = "csv" if file.kind in _SHEET_KINDS else "json"
    request = ConversionRequest(media_type=media_type, format=name, options={})
    convert = {"parquet": parquet.convert, **dict.fromkeys(_SHEET_KINDS, sheets.convert)}
    data = path.read_bytes()
    try:
        data = gzip.decompress(data) if file.kind == "csv.gz" else data
        with path.open("rb") if file.kind == "parquet" else io.BytesIO(data) as stream:
            read = convert.get(file.kind, delimited.convert)(cast("Any", stream), request)
            text = "".join(part.data for part in read if isinstance(part.data, str))
    except (ConversionError, EOFError, OSError, zlib.error):
        return None
    if name == "csv":
        rows: list[list[Any]] = list(csv.reader(io.StringIO(text, newline="")))[1:]
        return rows
    return cast("list[list[Any]]", json.loads(text)["rows"])


# -- compared


def _same(shown: Any, other: object) -> bool:
    """Return whether values are the same, as their types spell them."""
    if shown == other and isinstance(shown, bool) == isinstance(other, bool):
        return True
    if shown in (None, "") or other in (None, ""):
        return shown in (None, "") and other in (None, "")
    match shown:
        case {"$blob": _, "bytes": size}:  # damage can make bytes of the text of Parquet
            return other == f"[{size} bytes]"
        case {"$text": begin, "characters": _}:  # a large value, as damage can make one
            return str(other).startswith(begin)
        case _:
            pass
    first, second = _spelt(shown), _spelt(other)
    return first == second or (
        isinstance(shown, list | dict) != isinstance(other, list | dict)
        and _loaded(first) == _loaded(second)
    )


def _spelt(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < 2**53:
            return str(int(value))
        case list() | dict():
            return json.dumps(value, sort_keys=True)
        case _:
            text = re.sub(r"^(\d{4}-\d\d-\d\d)T", r"\1 ", str(value))
            if re.fullmatch(r".*:\d\d\.\d{6}", text):
                return text.rstrip("0")
            return text.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", text) else text


def _loaded(text: str) -> object:
    with suppress(ValueError):
        return json.loads(text)
    return text


def _compare(table: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[Any]], what: str) -> None:
    if len(table) != len(rows):
        raise Violation(f"{len(table)} rows of the table, {len(rows)} {what}")
    for number, (shown, row) in enumerate(zip(table, rows, strict=True), 1):
        values = [*shown.values()]
        cells = [*row, *[None] * (len(values) - len(row))]
        extra = [cell for cell in cells[len(values) :] if cell not in (None, "")]
        for value, cell in zip(values, cells, strict=False):
            if not _same(value, cell):
                raise Violation(f"row {number}: {value!r} in the table, {cell!r} {what}")
        if extra:
            raise Violation(f"row {number}: {extra!r} {what}, nothing in the table")


async def check(case: Files, tally: Tally) -> None:
    """Serve the files, and compare each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sound.csv").write_text("id,name\n1,Ann\n", "utf-8")
        paths = [folder / f"f{at}.{file.kind}" for at, file in enumerate(case.files)]
        for path, file in zip(paths, case.files, strict=True):
            path.write_bytes(_bytes(file))
        provider = timed_database(FRESH, url=f"files:{quote(name)}/*")
        async with Catalog([mounted(provider)], CatalogLimits(page_size=1000)) as catalog:
            problems = await catalog.start()
            if problems:
                raise Violation(f"the mount is not served: {problems}")
            view = Served(catalog, "")
            served = await view.children()
            if await _table(view, "sound") != [{"id": 1, "name": "Ann"}]:
                raise Violation("another file of the mount is not what it was")
            for at, (path, file) in enumerate(zip(paths, case.files, strict=True)):
                table = await _table(view, f"f{at}") if f"f{at}" in served else None
                _judge(file, table, _document(path, file))
                tally.count("files")
                tally.count("rows", len(table or ()))


async def _table(view: Served, name: str) -> list[dict[str, Any]] | None:
    """Return the rows of a table; None if its file is damaged where it is read."""
    try:
        return [row for page in await view.pages(f"{name}/~rows?limit=1000") for row in page]
    except (MountUnavailable, ResourceUnreadable):
        return None


def _judge(
    file: Written, table: list[dict[str, Any]] | None, document: list[list[Any]] | None
) -> None:
    written = None if file.damage else [list(row) for row in _all_rows(file)]
    try:
        if table is None:
            if document and any(any(row) for row in document) and file.kind != "parquet":
                raise Violation(f"no table of {len(document)} rows of a document")
            if written:
                raise Violation("no table of a sound file")
            return
        if document is not None:
            _compare(table, document, "in the document")
        if written is not None:
            _compare(table, written, "as written")
    except Violation as error:
        raise Violation(f"{file.kind}: {error}") from None


# -- cases

_SPELLINGS = (
    *("", "00123", "+4912", "1.10", "1_000", "12345678901234567890", "t", "y", "true", "TRUE"),
    *("1", "-5", "0", "-0", "2.75", "0.1", "1.0", "1e5", "1e-05", ".5", "5.", "1,5", "NULL", "nan"),
    *(
        "inf",
        "2026-01-31",
        "2026-02-30",
        "2026-01-31 12:30:00",
        "2026-01-31T12:30:00.5",
        "24:00:00",
    ),
    *("12:00:00", "12:00:00+02", "infinity", "epoch", "9223372036854775808", "0x1F", " 7", "7 "),
    *(
        "a",
        "Smith, John, Jr",
        "x;y",
        "|p|",
        "//",
        "# no",
        'say "no"',
        "two\nlines",
        "Zürich",
        "tab\t",
    ),
)
_NAMES = ("id", "name", "city", "price", "note", "when", "flag", "code")
_texts = st.sampled_from(_SPELLINGS)
_alike = st.sampled_from(
    (("1", "20", "-3"), ("1.5", "2", "0.25"), ("true", "false"), ("2026-01-31", "2024-02-29"))
)


@st.composite
def _tables(draw: st.DrawFn, *, is_ragged: bool) -> dict[str, Any]:
    """Draw names and rows; most columns hold values of one kind, some with another one at last."""
    width = draw(st.integers(2, 6))
    height = draw(st.integers(1, 8))
    columns = [draw(st.one_of(_alike.map(st.sampled_from), st.just(_texts))) for _ in range(width)]
    rows = [tuple(draw(column) for column in columns) for _ in range(height)]
    if height > 2:
        rows[-1] = tuple(draw(st.one_of(st.just(cell), _texts)) for cell in rows[-1])
    if is_ragged and height > 4:
        extra = draw(st.lists(st.sampled_from(("EX", "1")), max_size=3))
        rows[-1] = (*rows[-1], *extra) if extra else rows[-1][: draw(st.integers(1, width))]
    return {"names": tuple(_NAMES[:width]), "rows": tuple(rows)}


def _is_fit(fields: Mapping[str, Any]) -> bool:
    """Return whether no row is nothing but empty, which CSV does not tell from a line's end."""
    return all(any(row) for row in fields["rows"])


_damages = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.sampled_from(("cut", "flip", '"', ",", "\n", "\r", "é")), st.integers(0, 10**6)),
)
_ABOVE = ("", "", "", "Report 2024\n\n", "# exported\n# by x\n")


@st.composite
def _delimited(draw: st.DrawFn, *, is_sound: bool = False) -> Written:
    return Written(
        kind=draw(st.sampled_from(("csv", "csv", "csv.gz", "tsv"))),
        **draw(_tables(is_ragged=True).filter(_is_fit)),
        delimiter=draw(st.sampled_from(",;\t|")),
        quotes_all=draw(st.booleans()),
        end=draw(st.sampled_from(("\n", "\r\n"))),
        encoding=draw(st.sampled_from(("utf-8", "utf-8", "utf-8-sig", "utf-16"))),
        above=draw(st.sampled_from(_ABOVE)),
        late=draw(st.sampled_from((0, 0, 0, 1200))),
        damage=None if is_sound else draw(_damages),
    )


_json_values: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from((None, True, False, 1, -5, 2.75, 0.1, 2**63, 2**64, 1e300, 10**20)),
    _texts,
    st.sampled_from(([], [1, "x", None], {"a": {"b": [2.5]}}, {"A": 1, "a": 2}, [[1], {}])),
)
_cells: st.SearchStrategy[Any] = st.one_of(_texts, st.sampled_from((1, -5, 2.5, 0.1, 10**12)))
_numbers = st.integers(-(2**63), 2**63 - 1)
_reals = st.floats(allow_nan=False, allow_infinity=False)
_parquet_values = [st.one_of(st.none(), each) for each in (_numbers, _texts, _reals, st.booleans())]
_ROWS: Mapping[str, tuple[st.SearchStrategy[Any], ...]] = {
    "jsonl": (_json_values, _json_values, _json_values),
    **dict.fromkeys(_SHEET_KINDS, (st.integers(1, 9), _cells, _cells)),
    "parquet": tuple(_parquet_values),
}
_JSON_NAMES = (("id", "name", "ID"), ("a", "A", "b_2"), ("value", "x y", "é"))


@st.composite
def _typed(draw: st.DrawFn) -> Written:
    kind = draw(st.sampled_from(tuple(_ROWS)))
    rows = draw(st.lists(st.tuples(*_ROWS[kind]), min_size=1, max_size=8))
    width = len(rows[0])
    return Written(
        kind=kind,
        names=draw(st.sampled_from(_JSON_NAMES)) if kind == "jsonl" else _NAMES[:width],
        rows=tuple(rows),
        late=0 if kind in _SHEET_KINDS else draw(st.sampled_from((0, 0, 0, 1200))),
        damage=draw(_damages),
    )


_CASES = st.builds(
    Files, files=st.lists(st.one_of(_delimited(), _typed()), min_size=1, max_size=6).map(tuple)
)
_SOUND = st.builds(
    Files, files=st.lists(_delimited(is_sound=True), min_size=3, max_size=6).map(tuple)
)


@contextmanager
def _sabotaged(change: str) -> Generator[None]:
    run = CurrentWorker.run

    async def changed(self: CurrentWorker, job: Run) -> RunResult | RunFailed:
        answer = await run(self, job)
        if isinstance(answer, RunResult) and "~row" in job.sql and len(answer.rows) > 1:
            answer = _CHANGES[change](answer)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CurrentWorker, "run", changed)
        yield


def _without_last(answer: RunResult) -> RunResult:
    return RunResult(answer.id, answer.columns, answer.rows[:-1], answer.more)


def _with_numbers(answer: RunResult) -> RunResult:
    rows = [tuple(_guessed(value) for value in row) for row in answer.rows]
    return RunResult(answer.id, answer.columns, rows, answer.more)


def _guessed(value: object) -> object:
    with suppress(ValueError):
        return float(value) if isinstance(value, str) and value else value
    return value


_CHANGES = {"row-lost": _without_last, "types-guessed": _with_numbers}

PROPERTY: Property[Files] = Property(
    name="files",
    cases=_CASES,
    check=check,
    sabotages={name: partial(_sabotaged, name) for name in _CHANGES},
    sabotaged=dict.fromkeys(_CHANGES, _SOUND),
)
