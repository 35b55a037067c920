"""Parser events of YAML texts, for readers that bound the depth of nesting themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import cast

import yaml

_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_events(text: str) -> Iterator[yaml.Event]:
    """Yield the parser events of a text. A reader has to stop before a thousand levels.

    Raises:
        yaml.YAMLError: the text is not YAML.
    """
    seen = 0
    while True:
        try:
            events = cast(
                "Iterator[yaml.Event]",
                yaml.parse(text, Loader=_Parser),  # pyright: ignore[reportUnknownMemberType]
            )
            for event in islice(events, seen, None):
                seen += 1
                yield event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            if mark is None or "maximum nesting depth" not in str(error.problem):
                raise
            # From 6.0.4 on, PyYAML refuses the thousandth level, before any event of the first:
            # the text up to there has all the levels that a reader needs to refuse it.
            lines = text.splitlines(keepends=True)
            text = "".join(lines[: mark.line]) + lines[mark.line][: mark.column]
        else:
            return
