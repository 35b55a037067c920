from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from resource_server.runtime import openat2


@pytest.mark.guarantee("closed-by-the-kernel")
def test_a_path_below_a_folder_is_opened_and_one_outside_is_not(tmp_path: Path) -> None:
    call = openat2.system_call()
    if call is None:
        pytest.skip("this system has no openat2, or forbids it")
    (tmp_path / "a").mkdir()
    how = openat2.HOW.pack(os.O_RDONLY | os.O_CLOEXEC, 0, openat2.RESOLVE_BENEATH)
    folder = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        os.close(call(folder, b".", how))
        with pytest.raises(OSError) as raised:  # noqa: PT011 - the code is compared below
            call(folder, b"..", how)
    finally:
        os.close(folder)
    assert raised.value.errno == errno.EXDEV
