"""Live pages: the stream tells of each change of what a page shows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.explorer.shop import make_shop
from tests.transports.program import request, running
from tests.waiting import block_until

LIVE = "/explore/live/"


def test_a_change_of_a_row_and_of_a_file_is_told(tmp_path: Path) -> None:
    with running(make_shop(tmp_path)) as program, program.lines(2) as (rows, file):
        for line, uri in (
            (rows, "sqlite:%2F%2Fshop/orders/~rows"),
            (file, "file:%2F%2F/project/main.py"),
        ):
            answer = line.ask(request("GET", path=LIVE + uri, accept="text/event-stream"))
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert line.event().name == "subscribed"
        with sqlite3.connect(tmp_path / "shop.db") as database:
            database.execute("update orders set status = 'lost' where id = 3")
        database.close()
        assert rows.event().name == "changed"
        (program.folder / "main.py").write_text("changed\n", encoding="utf-8")
        assert file.event().name == "changed"


def test_a_thousand_pages_that_go_away_leave_nothing(tmp_path: Path) -> None:
    with running(make_shop(tmp_path)) as program:
        path = LIVE + "file:%2F%2F/project/main.py"
        for _ in range(50):
            with program.lines(20) as lines:
                for line in lines:
                    assert line.ask(request("GET", path=path)).status == 200
        block_until(lambda: program.sockets() < 10)


def test_a_stream_ends_when_the_server_does(tmp_path: Path) -> None:
    with running(make_shop(tmp_path)) as program, program.line() as line:
        line.ask(request("GET", path=LIVE + "file:%2F%2F/project/main.py"))
        assert line.event().name == "subscribed"
        assert program.end(15) == 0


def test_what_cannot_be_subscribed_to_has_no_stream(tmp_path: Path) -> None:
    with running(make_shop(tmp_path)) as program:
        assert program.ask(request("GET", path=LIVE + "file:%2F%2F/project/none")).status == 404
