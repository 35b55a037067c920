"""`resource-server completion`: prints the script by which a shell completes commands."""

from __future__ import annotations

import click

from resource_server.cli import completion, console
from resource_server.cli.program import COMPLETION_VARIABLE, PROGRAM


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(list(completion.SHELLS)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, options, files and URIs.

    SHELL is bash, zsh or fish. URIs and paths are those of the sources before them.

    `eval "$(resource-server completion bash)"` in ~/.bashrc loads it, for zsh in ~/.zshrc after
    compinit; `resource-server completion fish | source` does in ~/.config/fish/config.fish.
    """
    program = context.find_root().command
    text = completion.script(program, PROGRAM, COMPLETION_VARIABLE, shell)
    console.print_line(text.strip())
