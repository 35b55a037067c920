"""Search for a violation: `python -m tests.worlds PROPERTY --minutes N [--seed S] [--record]`.

It goes from seed to seed until the time is over, prints what it compared, and ends with status 1 if
it found a violation, whose smallest case it prints as a program. With `--record`, the figures of a
search that found nothing are kept for docs/guarantees.md.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.worlds.figures import record
from tests.worlds.harness import Report, Tally, search
from tests.worlds.registry import NAMES, property_named

_SEED_S = 120.0
"""Time of one seed: variety comes from new seeds, and a violation is made smaller in this time."""


def main() -> int:
    """Run one property; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("property", choices=NAMES)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="the first seed; by default the time")
    parser.add_argument("--sabotage", metavar="NAME", help="break the server in this way")
    parser.add_argument(
        "--record", action="store_true", help="keep the figures if nothing is found"
    )
    arguments = parser.parse_args()
    # Worlds are full of what a server warns its operator of.
    logging.getLogger("resource_server").setLevel(logging.CRITICAL)
    searched = property_named(arguments.property)
    if arguments.sabotage not in (None, *searched.sabotages):
        parser.error(f"--sabotage: one of {', '.join(searched.sabotages)}")
    first = int(time.time()) if arguments.seed is None else arguments.seed
    until = time.monotonic() + 60 * arguments.minutes
    tally, cases, seed = Tally(), 0, first
    while (left := until - time.monotonic()) > 0:
        seconds = left if searched.is_one_run else min(left, _SEED_S)
        report = search(searched, seed, seconds, arguments.sabotage)
        tally.add(report.tally)
        cases += report.cases
        if report.violation is not None:
            _tell(report)
            break
        seed += 1
    else:
        seed -= 1
        report = None
    outcome = "nothing found" if report is None else f"a violation with seed {report.seed}"
    sys.stdout.write(
        f"{searched.name}: {outcome}; seeds {first} to {seed}, {cases} cases, {tally}\n"
    )
    if report is None and arguments.record and arguments.sabotage is None:
        record(searched.name, f"{first} to {seed}", cases, tally.counts)
    return 0 if report is None else 1


def _tell(report: Report) -> None:
    sys.stdout.write(f"{report.violation}\n\n{report.script}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
