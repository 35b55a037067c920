"""Writes docs/guarantees.md, and the numbers of docs/how-it-is-tested.md.

`python -m tests.guarantees` writes the promises, `python -m tests.guarantees counts` both.
"""

import sys

from tests import reference
from tests.guarantees import counts, page

if __name__ == "__main__":
    reference.write(page.SECTION, page.PAGE, page.sections())
    if sys.argv[1:] == ["counts"]:
        reference.write(counts.SECTION, counts.PAGE, counts.table(counts.collected()))
