"""Run the benchmarks that are named, or all: `python -m tests.benchmarks [--quick] [name …]`.

With `--against COMMIT`, stdio, http and database compare this checkout with a commit of it instead.
They need Linux (`/proc`, GNU `find`). Absolute values mean nothing elsewhere; ratios of one run do.
"""

from __future__ import annotations

import argparse
import os
import platform

from tests.benchmarks import (
    database,
    documents,
    explorer,
    fleet,
    listing,
    notify,
    over_http,
    pairs,
    record,
    scaling,
    search,
    startup,
    stdio,
    storage,
)
from tests.benchmarks.agent import measure

BENCHMARKS = {
    "stdio": stdio.run,
    "listing": listing.run,
    "search": search.run,
    "startup": startup.run,
    "notify": notify.run,
    "database": database.run,
    "http": over_http.run,
    "documents": documents.run,
    "explorer": explorer.run,
    "fleet": fleet.run,
    "storage": storage.run,
    "record": record.run,
    "scaling": scaling.run,
    "agent": measure.run,
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", choices=[*BENCHMARKS, []], help=", ".join(BENCHMARKS)
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a smaller tree")
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit instead")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # servers start as installed, from bytecode
    print(f"Python {platform.python_version()} on {platform.system()} {platform.release()}")
    if arguments.against:
        pairs.compare(arguments.against, arguments.names, quick=arguments.quick)
        return
    for name in arguments.names or BENCHMARKS:
        BENCHMARKS[name](quick=arguments.quick)


if __name__ == "__main__":
    main()
