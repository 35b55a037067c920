"""The command that starts this program, absolute: hosts on a desktop have another PATH."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import sysconfig

from resource_server.runtime import installation


def program() -> tuple[str, ...]:
    """Return the command that starts this program in the way it runs now."""
    requirement = installation.current().uvx_requirement()
    if requirement is not None:
        # The environment of uvx is gone with its cache.
        uvx = shutil.which("uvx") or "uvx"
        return (uvx, "--from", requirement, "resource-server")
    name = "resource-server.exe" if os.name == "nt" else "resource-server"
    script = pathlib.Path(sysconfig.get_path("scripts")) / name
    if script.is_file():
        return (str(script),)
    return (sys.executable, "-m", "resource_server")
