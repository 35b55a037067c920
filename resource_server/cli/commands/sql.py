"""`resource-server sql`: prints SQL for the owner of a database."""

from __future__ import annotations

from collections.abc import Sequence

import click

from resource_server.cli import console, log_output, runner, source_arguments
from resource_server.errors import MountUnavailable, ResourceError
from resource_server.manifest.wording import quoted_value, unknown_name
from resource_server.provider import Provider
from resource_server.serving import server_builder


@click.command("sql", short_help="Print SQL for the owner of a database to run.")
@source_arguments.sources_argument
@click.option(
    "--role", "what", flag_value="role", help="A login that only reads the exposed tables."
)
@click.option("--notify", "what", flag_value="notify", help="Triggers that notify of changes.")
@click.option(
    "--policy", "what", flag_value="policy", help="Views of the policy, for SQL of callers."
)
@click.option("--name", metavar="NAME", help="The database, if there are several.")
@source_arguments.common_options
def command(
    words: Sequence[str], what: str | None, name: str | None, no_plugins: bool, verbose: int
) -> int:
    """Print SQL for a database of a SOURCE, without running it.

    It covers the tables that the manifest exposes now.
    """
    # Imported here: a folder does without SQLAlchemy.
    from resource_server.manifest.databases import owner_sql

    if what is None:
        raise console.usage_error("--role, --notify or --policy is missing")
    log_output.log_to_stderr(verbose)
    manifest = server_builder.load_manifest(*words, allow_plugins=not no_plugins)
    providers = server_builder.make_providers(manifest, allow_plugins=not no_plugins)
    found = {name: provider for name, provider in providers if owner_sql.is_database(provider)}
    if not found:
        return console.fail("the source has no database")
    if name is None and len(found) > 1:
        return console.fail(f"--name is missing; one of {', '.join(found)}", status=2)
    if name is not None and name not in found:
        return console.fail(unknown_name(f"database {quoted_value(name)}", name, found), status=2)
    name = name or next(iter(found))
    return runner.run(_print(name, found[name], what))


async def _print(name: str, database: Provider, what: str) -> int:
    from resource_server.manifest.databases import owner_sql

    assert owner_sql.is_database(database)  # noqa: S101
    try:
        after_s = source_arguments.current_timing().progress_s
        with console.progress(f"reading the tables of {name}", after_s=after_s):
            found = await owner_sql.exposed_tables(name, database)
    except (MountUnavailable, ResourceError) as error:
        return console.fail(f"the exposed tables of {name} cannot be determined: {error}")
    for option, problem in found.mistakes:
        console.note(f"{option}: {problem}")
    match what:
        case "role":
            console.write_text(owner_sql.role_sql(found))
        case "notify":
            console.write_text(owner_sql.notify_sql(found))
        case _:
            from resource_server.manifest.databases import policy_sql

            if found.has_claims:
                return console.fail(
                    f"the rows of {name} depend on claims of callers, and views show the same to "
                    "all: callers cannot send SQL to it"
                )
            console.write_text(policy_sql.policy_sql(found))
    return 0
