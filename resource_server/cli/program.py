"""The program: its commands, exit statuses and error messages.

Most commands are modules of `commands`, imported on use. Exit status: 0 success, 1 failure or
refusal, 2 usage or manifest error, 130 interrupted. An error is one line on standard error.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from resource_server import __version__
from resource_server.catalog.mount import log_failure
from resource_server.cli import console, runner
from resource_server.errors import ManifestError, ResourceError
from resource_server.manifest.wording import quoted_value, unknown_name
from resource_server.runtime.extras import MissingExtra
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

PROGRAM = "resource-server"
COMPLETION_VARIABLE = "_RESOURCE_SERVER_COMPLETE"
"""Environment variable by which a shell asks for completions."""
_COMMANDS = (
    "serve",
    "check",
    "list",
    "read",
    "metadata",
    "watch",
    "init",
    "install",
    "uninstall",
    "doctor",
    "explore",
    "new-provider",
    "index",
    "audit",
    "sql",
    "completion",
    "schema",
    "version",
)
"""All commands, in the order of the help."""


_OF_HTTP = frozenset(("--address", "--bind", "--host", "--listen", "--port", "--transport"))
"""Options of other servers; `serve` has `--http` instead."""
_FIRST_STEPS = (
    "resource-server serves folders and databases to MCP clients. To begin:",
    "  resource-server list              what this folder has, as clients see it",
    "  resource-server install HOST      connect a host, such as claude-code, vscode or cursor",
    "  resource-server init              write a manifest, to choose what is served",
    "  resource-server serve --demo      serve an example",
    "  resource-server --help            all commands",
)


@click.command("schema", short_help="Print the JSON Schema of the manifest.")
def _schema() -> None:
    """Print the JSON Schema of the manifest, with the options of all installed providers."""
    # Imported here: `schema --help` does without pydantic.
    from resource_server.manifest.schema import manifest_schema

    console.print_indented_json(manifest_schema())


@click.command("version")
def _version() -> None:
    """Print the version."""
    click.echo(f"{PROGRAM}, version {__version__}")


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(("bash", "zsh", "fish")))
def _completion(shell: str) -> None:
    """Print the script by which SHELL completes commands, options, files and URIs.

    SHELL is bash, zsh or fish. URIs and paths are those of the sources before them.

    `eval "$(resource-server completion bash)"` in ~/.bashrc loads it, for zsh in ~/.zshrc after
    compinit; `resource-server completion fish | source` does in ~/.config/fish/config.fish.
    """
    # Imported here, as below: only a shell asks for completions.
    from resource_server.cli import completion

    text = completion.script(program, PROGRAM, COMPLETION_VARIABLE, shell)
    console.print_line(text.strip())


_SMALL_COMMANDS = {"completion": _completion, "schema": _schema, "version": _version}
"""Commands without a module of their own."""


class _Commands(click.Group):
    """The commands, each imported on use: `serve` starts without the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in _COMMANDS:
            ctx.fail(unknown_name(f"command {quoted_value(cmd_name)}", cmd_name, _COMMANDS))
        if cmd_name in _SMALL_COMMANDS:
            return _SMALL_COMMANDS[cmd_name]
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"resource_server.cli.commands.{name}")
        return module.command


@click.command(
    cls=_Commands,
    subcommand_metavar="COMMAND [SOURCE]... [URI]",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="SOURCE is a folder, a manifest, a SQLite file or the URL of a database; "
    "without one it is the current folder. URI may be a path in it.",
)
@click.version_option(__version__, "--version", "-V", prog_name=PROGRAM)
def program() -> None:
    """Serve folders and databases as MCP resources."""


def main(arguments: Sequence[str] | None = None, *, timing: Timing = DEFAULT_TIMING) -> NoReturn:
    """Run one command and exit with its status."""
    console.prepare_streams()
    leave_after(lambda: _run(arguments, timing))


def leave_after(work: Callable[[], int]) -> NoReturn:
    """Do the work of a command or of a worker, report its failure, and exit with its status."""
    others = set(threading.enumerate())
    try:
        status = work()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has gone.
        console.discard(sys.stdout)
        status = 1
    except OSError as error:
        if error.errno == errno.EBADF and not error.filename:  # closed from the start
            console.discard(sys.stdout)
            status = 1
        else:
            status = _failed(error)
    except (click.Abort, KeyboardInterrupt):
        status = 130
    except Exception as error:
        status = _failed(error)
    runner.leave(status, others)


def _run(arguments: Sequence[str] | None, timing: Timing) -> int:
    if os.environ.get(COMPLETION_VARIABLE):
        from resource_server.cli import completion

        return completion.answer(program, PROGRAM, COMPLETION_VARIABLE)
    return program.main(arguments, prog_name=PROGRAM, standalone_mode=False, obj=timing) or 0


def _failed(error: Exception) -> int:
    """Print one line per problem, and return the exit status of the failure."""
    match error:
        case ManifestError():
            return console.fail(*map(str, error.diagnostics), prefix=False, status=2)
        case MissingExtra():
            return console.fail(str(error), status=2)
        case click.exceptions.NoArgsIsHelpError():
            return console.fail(*_FIRST_STEPS, prefix=False, status=error.exit_code)
        case click.NoSuchOption(option_name=name) if name in _OF_HTTP:
            return console.fail(
                f"no such option '{name}'; `serve --http 127.0.0.1:8000` serves over HTTP; "
                "see resource-server serve --help",
                status=2,
            )
        case click.UsageError(ctx=click.Context(command_path=path)):
            # Click puts each choice on a line of its own.
            text = error.format_message().replace("\n\t", " ").rstrip(".")
            see = " See" if text.endswith("?") else "; see"
            text = f"{text[:1].lower()}{text[1:]}{see} {path} --help"
            return console.fail(text, status=error.exit_code)
        case click.ClickException():
            return console.fail(error.format_message(), status=error.exit_code)
        case OSError(strerror=str(reason)):
            about = f": {error.filename}" if error.filename else ""
            console.fail(f"{reason[:1].lower()}{reason[1:]}{about}")
            console.discard(sys.stdout)
            return 1
        case ResourceError():
            return console.fail(str(error))
        case _:
            log_failure(error, "internal error")
            return 1
