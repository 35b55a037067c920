"""The promises of README, docs/security.md and docs/databases.md: the only list of them.

Tests that prove one have its name as a mark, `@pytest.mark.guarantee("hidden-does-not-exist")`, and
worlds prove those that name them here. `python -m tests.guarantees` writes docs/guarantees.md.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Promise(NamedTuple):
    """A promise to the people who run the server."""

    name: str
    sentences: tuple[str, ...]
    """As one of these pages has them, without emphasis and links."""
    modules: tuple[str, ...]
    """The modules or folders of the package that keep it."""
    limits: str
    """What it does not cover."""
    worlds: tuple[str, ...] = ()
    """The properties of `tests.worlds` that prove it."""


PROMISES = (
    Promise(
        "hidden-does-not-exist",
        (
            "Ignored, hidden and secret files do not exist for clients: not in listings, not by "
            "guessing a URI, not in completion.",
            "What is hidden does not exist, not for a guessed URI, in a count, a search, a "
            "completion or a notification.",
        ),
        ("providers/filesystem/exposure", "providers/database/policy.py", "access.py"),
        "An ignore file that changes is obeyed by reads within 20 ms, by listings at once. What "
        "was read before is with the client.",
        ("noninterference",),
    ),
    Promise(
        "one-bucket",
        (
            "Object storage has no other bucket. No key and no prefix leads out of the one that is "
            "named, no redirect to another host is followed, and no error repeats a credential, a "
            "signature or a URL.",
        ),
        ("buckets", "providers/object_storage"),
        "Behind a proxy of the environment, the proxy decides which addresses a host has.",
    ),
    Promise(
        "reads-are-recorded",
        (
            "What was read can be recorded. With audit, each request has a line with its caller, "
            "its address and its outcome. Lines that cannot be written are counted and told, or "
            "requests are refused; no line delays a request.",
        ),
        ("audit", "protocol/recorded_request.py"),
        "A killed process loses the lines of its last 50 ms. With `on_error: refuse`, requests "
        "that came before a failed write was noticed are answered, and get their lines later.",
    ),
    Promise(
        "record-is-chained",
        (
            "A record shows that it was changed. Each line has the hash of the line before, over "
            "all files and restarts; resource-server audit verify names the first line that does "
            "not follow.",
        ),
        ("audit/chain.py", "audit/verification.py"),
        "A cut at the end, and a record that is written anew from some line on, cannot be seen.",
    ),
    Promise(
        "record-has-no-secret",
        (
            "A record has no secret. No value of a hidden or masked column gets into it by a "
            "filter, a key, SQL or a search, and no token.",
        ),
        ("protocol/recorded_request.py", "providers/database/recorded.py"),
        "Names of documents are recorded as they were asked for, also of what is hidden. A value "
        "that a visible column has, too, is recorded as its value.",
    ),
    Promise(
        "record-is-not-served",
        (
            "Nobody reads the record through the server. A file inside of what is served is "
            "refused, and the last requests are a resource only for callers with the scopes that "
            "the manifest names.",
        ),
        ("manifest/audit_place.py", "audit/activity.py"),
        "Those callers see addresses in mounts that they may not read. A plugin may serve any "
        "file, and so may a link that somebody puts among data files later.",
    ),
    Promise(
        "hidden-changes-nothing",
        (
            "Two worlds that differ only in hidden files, tables, columns, rows, masked values or "
            "mounts give a caller the same bytes, and no notification when the hidden part "
            "changes.",
            "Generated tests compare, byte for byte, servers that differ only in hidden things.",
        ),
        ("catalog", "providers", "subscriptions", "access.py"),
        "The differences that [Security](security.md) lists: what a visible view computes from "
        "hidden rows, equal codes of hashes, estimated counts, times, and the others.",
        ("noninterference",),
    ),
    Promise(
        "secrets-stay-hidden",
        (
            "Secrets (.env, private keys, credentials, .git/ and so on) stay hidden even from "
            "include, unless secrets: {allow: [...]} names the pattern.",
        ),
        ("documents/secrets.py",),
        "Secrets are recognised by their names. A password inside of a file of another name is "
        "served with it.",
    ),
    Promise(
        "own-files-withheld",
        (
            "A root never serves its own manifest, the key of the server, nor a SQLite or DuckDB "
            "database that the manifest serves, with its journals, under any name: hard links, "
            "followed symbolic links and other roots included.",
        ),
        ("providers/filesystem/exposure/withheld.py",),
        "A copy of such a file is another file. Data files (`files:data/*.csv`) are served by a "
        "root around them, whatever is hidden in their tables: `exclude` hides them.",
    ),
    Promise(
        "rules-that-hide-nothing-stop",
        ("What a misspelt or outdated rule was to hide is not served:",),
        (
            "providers/database/unprotected_tables.py",
            "providers/filesystem/exposure/unmatched.py",
        ),
        "A misspelt rule without a near name, or a pattern, is reported and refused by `--strict`, "
        "but the rest is served: nobody can know what it meant.",
    ),
    Promise(
        "published-secrets-refused",
        ("Tokens and keys of these docs serve this machine alone.",),
        ("manifest/http.py", "manifest/model.py", "cli/http_options.py"),
        "Known are the samples of these docs and whatever begins with `change-this` or "
        "`change-me`; weak secrets of other kinds are not recognised.",
    ),
    Promise(
        "closed-by-the-kernel",
        (
            "On Linux every open is one openat2 that cannot leave the root, follow a link or be "
            "raced.",
            "On Linux each file is opened by one openat2 below its root: no .., link or race "
            "leaves it.",
        ),
        ("runtime/openat2.py", "providers/filesystem/contained_root.py"),
        "Without `openat2` (macOS, Linux before 5.6) each component is opened without following "
        "links. What is mounted below the root, and hard links, belong to it.",
    ),
    Promise(
        "regular-files-only",
        ("Pipes, sockets and devices are not found, and never block.",),
        ("providers/filesystem/contained_root.py",),
        "A regular file of a network drive that hangs blocks its own read, until its time limit.",
    ),
    Promise(
        "links-stay-inside",
        ("Symbolic links are not followed or, with symlinks: within-root, only inside the root.",),
        ("providers/filesystem/contained_root.py", "providers/filesystem/file_tree.py"),
        "Hard links cannot be told apart from files. The root itself may be a link: who may change "
        "it decides what is served.",
    ),
    Promise(
        "no-spelling-reaches-more",
        (
            "A URI that a host has encoded, decoded or wrapped is read as the canonical URI it "
            "stands for, under the same rules, and only if nothing has the URI as it was sent.",
        ),
        ("uris.py", "catalog/catalog.py"),
        "Two names that differ only in accents or spaces as typed lead to the one that is spelt "
        "exactly so.",
    ),
    Promise(
        "refusal-looks-like-absence",
        ("Refusal looks like absence, and no error contains a path on your machine.",),
        ("protocol/error_mapping.py", "errors.py"),
        "The same bytes, not the same time: an absent name may take longer than a hidden one. What "
        "is visible and cannot be read says so.",
    ),
    Promise(
        "any-input-is-answered",
        (
            "Any input gets a response or a closed connection. Messages are limited to 4 MiB, and "
            "memory is bounded.",
        ),
        ("protocol/message.py", "transports"),
        "A body over the limit is refused over HTTP without its id, on its own exchange.",
        ("messages", "soak"),
    ),
    Promise(
        "nothing-is-written",
        (
            "There is no code that changes what it serves; databases are opened read-only by their "
            "engines.",
        ),
        ("providers", "providers/database/engines/sqlite/database_file.py"),
        "The server may once, at its end, let SQLite complete a log that its reads kept. `install` "
        "and `init` write configurations of hosts and manifests, on the command line alone.",
    ),
    Promise(
        "engines-enforce-read-only",
        ("The engine enforces the read-only mode.",),
        ("providers/database/engines",),
        "A function that the database's owner made, and that acts outside of the transaction, does "
        "so for any reader with the right to call it. `check` warns of a login with broad rights; "
        "`require_readonly_role` refuses it.",
    ),
    Promise(
        "sql-of-callers-is-confined",
        (
            "Clients send SQL only where the manifest says sql, and then the engine confines it to "
            "what is visible.",
        ),
        (
            "providers/database/queries/callers/caller_sql.py",
            "providers/database/engines/sqlite/policy_connection.py",
            "providers/database/engines/sql_login.py",
            "providers/database/engines/duckdb",
        ),
        "On PostgreSQL, MariaDB and MySQL it is a login with rights to views alone, which the "
        "owner makes. MySQL itself is tested only by its dialect.",
        ("noninterference",),
    ),
    Promise(
        "sql-sees-the-policy",
        (
            "On SQLite, SQL sees the policy and nothing else, that of callers and declared queries "
            "alike:",
        ),
        ("providers/database/engines/sqlite/policy_connection.py",),
        "On other engines declared queries are rewritten, which is a promise to the author of the "
        "manifest, not against him.",
        ("noninterference",),
    ),
    Promise(
        "duckdb-is-confined",
        ("DuckDB runs in a process that can open its files and no others.",),
        ("providers/database/engines/duckdb", "conversion/sandbox.py"),
        "Landlock and seccomp are Linux's; elsewhere the process has DuckDB's own settings alone, "
        "and `check` and `doctor` say so.",
    ),
    Promise(
        "converters-are-confined",
        (
            "Documents are converted in processes that can do nothing else: no files, no network, "
            "no processes;",
            "Hostile documents are converted in confined processes, without files, network or "
            "other programs.",
        ),
        ("conversion/sandbox.py", "conversion/pool.py"),
        "Landlock and seccomp are Linux's; elsewhere limits of memory and time remain. What a "
        "document says is passed on, whatever it asks the model to do.",
        ("conversions",),
    ),
    Promise(
        "others-need-a-token",
        (
            "Over HTTP, other machines need a token by default, and scopes decide what each caller "
            "sees.",
        ),
        ("cli/http_options.py", "transports/http/auth", "access.py"),
        "`--insecure` lifts it. Programs of this machine need no token without `http.auth`.",
    ),
    Promise(
        "tokens-grant-what-they-name",
        (
            "Over HTTP with auth, a signed token has the scopes of its claim, a static one those "
            "of its scopes.",
        ),
        ("transports/http/auth",),
        "A token that is stolen is as good as its owner until it expires; static ones do not.",
    ),
    Promise(
        "other-drivers-answer-the-same",
        (
            "A database that has an engine of its own answers the same by another driver, but for "
            "what the table of limits says.",
        ),
        ("providers/database/engines/generic", "providers/database/reading/core_statements.py"),
        "Of the drivers, pysqlite, psycopg and PyMySQL are tested; MySQL is not, nor how long a "
        "read takes.",
    ),
    Promise(
        "rows-are-the-callers",
        (
            "Where a condition names a claim of the token, a caller sees the rows with its value "
            "and no others, in every way of asking. Without the claim there are no rows, never "
            "all.",
        ),
        (
            "providers/database/row_claims.py",
            "providers/database/policy.py",
            "catalog/catalog.py",
            "access.py",
        ),
        "A claim is as true as its issuer. A declared query compares a claim as its author wrote "
        "it; `views: warn` serves views around a condition.",
        ("tenants",),
    ),
    Promise(
        "tokens-are-verified",
        (
            "Each request is verified: signature, issuer, expiry and audience. No token is logged "
            "or passed on.",
        ),
        ("transports/http/auth",),
        "A token that its issuer revokes is accepted until it expires: there is no introspection.",
    ),
    Promise(
        "web-pages-stay-outside",
        (
            "Over HTTP a web page is answered only if it comes from the server's own address or "
            "from allowed_origins, under a Host that the server knows.",
        ),
        ("transports/http/app/application.py",),
        "Programs that are no browser send what they like in both headers: against them there are "
        "tokens.",
    ),
    Promise(
        "plugins-are-named",
        ("Plugins run only if the manifest names them, and --no-plugins refuses all.",),
        ("plugins.py",),
        "A plugin that runs has the rights of the server.",
    ),
    Promise(
        "plugins-cannot-end-the-server",
        (
            "An exception, a wrong result or a hang ends that call alone; every request is "
            "answered, and the other mounts serve on.",
        ),
        ("catalog/contract_guard.py",),
        "Code that blocks the whole process, or ends it (`os._exit`), does so.",
    ),
    Promise(
        "every-row-once",
        ("pages to the end of any folder or table",),
        ("providers/database/addressing", "providers/filesystem/file_tree.py", "catalog/cursor.py"),
        "Rows that come or go meanwhile may or may not be there. A key too long for a cursor ends "
        "the pages, which say so.",
        ("rows",),
    ),
    Promise(
        "nothing-is-silently-short",
        ("What is truncated says so, and has the address of the rest",),
        ("catalog", "protocol/tools/budget.py", "providers/database/formats/pages.py"),
        "Results of a plugin's tool are cut with a mark, and without an address: only the plugin "
        "knows one.",
    ),
    Promise(
        "as-shown-so-taken",
        ("a value as it is shown is one that filters and keys take",),
        ("providers/database/formats/values.py", "providers/database/reading/selection.py"),
        "What an engine cannot compare is refused by the name of its type.",
        ("spelling", "files"),
    ),
    Promise(
        "updates-arrive",
        (
            "Notifications within milliseconds: of files, folders, rows, results of queries, and "
            "the list.",
        ),
        ("subscriptions", "providers/filesystem/watch", "providers/database/change_detection.py"),
        "Databases that have no events are asked at an interval. Tables above 998 rows tell of the "
        "rest only with `change`, folders above 1,000 children of each change.",
        ("updates", "soak"),
    ),
    Promise(
        "mounted-alike",
        ("it gives each caller the bytes that the command gives, under the same rules.",),
        ("embedding", "serving"),
        "What FastMCP and the official SDK have no place for is left out; docs/embedding.md lists "
        "it.",
    ),
    Promise(
        "mounted-closed",
        (
            "Below another application, other machines need a host name that was allowed, and "
            "whoever it has not signed in sees nothing.",
        ),
        (
            "embedding/asgi.py",
            "embedding/callers.py",
            "transports/http/app/application.py",
        ),
        "Without tokens and without `caller`, a proxy on the same machine that sends requests on "
        "under the name `localhost` looks like this machine.",
    ),
    Promise(
        "pages-show-what-clients-get",
        (
            "The explorer shows a caller only what an MCP client of that caller gets, and runs "
            "nothing of a document.",
        ),
        ("explorer", "transports/http/app/explorer_requests.py"),
        "Operators are told what is hidden, and why. A browser that ignores its policies.",
    ),
    Promise(
        "every-revision",
        (
            "Every protocol revision, from 2024-11-05 to 2026-07-28, over stdio and HTTP, with "
            "documents and collections",
        ),
        ("protocol/revisions.py",),
        "Judged by the official SDKs and the conformance suite, as far as they go.",
    ),
    Promise(
        "configurations-keep-the-rest",
        ("It shows the change and asks first; everything else in the file stays as it is.",),
        ("cli/hosts",),
        "Where a host has a command of its own for this, the host writes the file.",
    ),
)


def proved_by_world(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a property of `tests.worlds`: the promises that name it."""
    return [pytest.mark.guarantee(each.name) for each in PROMISES if name in each.worlds]
