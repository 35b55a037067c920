from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest import Cache, CollectionLimits, Manifest, MountSpec
from resource_server.manifest.load import load
from resource_server.manifest.model import ServerOptions
from resource_server.provider import Annotations

TEN_MISTAKES = """\
version: 2
server:
  page_size: 0
  collection_reed: {children: 5}
  cache: {ttl: soon}
roots:
  project:
    path: .
    exlude: [dist]
    symlinks: within_root
    annotations: {audience: [usr]}
  docs:
    path: ./docs
    uri: file:///project/
    listed: maybe
  "my docs": {path: .}
rots: {}
providers:
  history:
    repository: .
"""


def manifest(folder: pathlib.Path, text: str) -> Manifest:
    file = folder / "mcp-resources.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file)


def diagnostics(file: pathlib.Path) -> tuple[Diagnostic, ...]:
    try:
        load(file)
    except ManifestError as error:
        return error.diagnostics
    return ()


def problems(folder: pathlib.Path, text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        manifest(folder, text)
    return [str(found).removeprefix(f"{folder}/") for found in caught.value.diagnostics]


def test_ten_mistakes_are_reported_together_in_file_order(tmp_path: pathlib.Path) -> None:
    assert problems(tmp_path, TEN_MISTAKES) == [
        "mcp-resources.yaml:1:10: version: expected 1, found the number 2",
        "mcp-resources.yaml:3:14: server.page_size: expected 1 or more, found the number 0",
        "mcp-resources.yaml:4:3: server.collection_reed: unknown option; "
        "did you mean 'collection_read'?",
        "mcp-resources.yaml:5:16: server.cache.ttl: not a length of time; write one with a unit: "
        "250ms, 2s, 30m, 1h, 1d (found 'soon')",
        "mcp-resources.yaml:9:5: roots.project.exlude: unknown option; did you mean 'exclude'?",
        "mcp-resources.yaml:10:15: roots.project.symlinks: expected one of deny, within-root, "
        "found 'within_root'; did you mean 'within-root'?",
        "mcp-resources.yaml:11:30: roots.project.annotations.audience[0]: expected one of user, "
        "assistant, found 'usr'; did you mean 'user'?",
        "mcp-resources.yaml:14:10: roots.docs.uri: roots.project on line 7 already has this base "
        "URI; give one of them another 'uri'",
        "mcp-resources.yaml:15:13: roots.docs.listed: expected true or false, found 'maybe'",
        'mcp-resources.yaml:16:3: roots["my docs"]: a name starts with a letter or digit and '
        "continues with those, '.', '_' or '-', 64 at most",
        "mcp-resources.yaml:17:1: rots: unknown section; did you mean 'roots'?",
        "mcp-resources.yaml:19:3: providers.history: option 'use' is missing; "
        "name a provider or a .py file",
    ]


def test_a_manifest_with_every_option_is_read(tmp_path: pathlib.Path) -> None:
    found = manifest(
        tmp_path,
        """\
        version: 1
        server:
          name: acme
          title: Acme
          instructions: Read docs first.
          page_size: 50
          collection_read: {children: 8, bytes: 4KiB}
          alternatives: inline
          cache: {ttl: 250ms, scope: public}
        providers:
          first: {use: a.py:One, uri: "Docs://Hand%62ook", size: 5}
        roots:
          second:
            path: docs
            title: Second
            description: The second.
            annotations: {audience: [user], priority: 0.5}
            listed: false
        """,
    )
    assert found.directory == tmp_path
    assert found.file == tmp_path / "mcp-resources.yaml"
    assert found.server == ServerOptions(
        name="acme",
        title="Acme",
        instructions="Read docs first.",
        page_size=50,
        collection_read=CollectionLimits(children=8, bytes=type(CollectionLimits().bytes)(4096)),
        alternatives="inline",
        cache=Cache(ttl=type(Cache().ttl)(0.25), scope="public"),
    )
    assert found.mounts == (
        MountSpec(
            name="first",
            base="docs://handbook/",
            use="a.py:One",
            options={"size": 5},
            path=("providers", "first"),
        ),
        MountSpec(
            name="second",
            base="file:///second/",
            use="filesystem",
            title="Second",
            description="The second.",
            annotations=Annotations(audience=("user",), priority=0.5),
            listed=False,
            options={"path": "docs"},
            path=("roots", "second"),
            withheld={str(found.file): "this root's manifest"},
        ),
    )


def test_omitted_options_have_their_defaults(tmp_path: pathlib.Path) -> None:
    found = manifest(tmp_path, "server:\nroots:\n  a: {path: .}\nproviders:\n")
    assert found.server == ServerOptions()
    assert [spec.base for spec in found.mounts] == ["file:///a/"]


def test_the_default_base_of_a_provider_is_its_name(tmp_path: pathlib.Path) -> None:
    found = manifest(tmp_path, "providers: {Notes: {use: x.py}}")
    assert [spec.base for spec in found.mounts] == ["resource://notes/"]


def test_an_access_rule_without_scopes_is_a_mistake(tmp_path: pathlib.Path) -> None:
    text = (
        "roots:\n"
        "  a: {path: ., access: {scopes: []}, directories: {d: {access: {}}}}\n"
        "databases:\n"
        "  b: {url: 'sqlite:///x', access: , tables: {t: {access: }}}\n"
        "providers:\n"
        "  c: {use: filesystem, path: ., access: {scopes: ['']}}\n"
        "  d: {use: filesystem, path: ., access: x}\n"
    )
    assert problems(tmp_path, text) == [
        "mcp-resources.yaml:2:33: roots.a.access.scopes: expected 1 or more items, "
        "found an empty list",
        "mcp-resources.yaml:2:56: roots.a.directories.d.access: option 'scopes' is missing",
        "mcp-resources.yaml:4:27: databases.b.access: option 'scopes' is missing",
        "mcp-resources.yaml:4:50: databases.b.tables.t.access: option 'scopes' is missing",
        "mcp-resources.yaml:6:51: providers.c.access.scopes[0]: expected text that matches "
        r"^[!#-\[\]-~]+$, found ''",
        "mcp-resources.yaml:7:41: providers.d.access: expected a mapping, found 'x'",
    ]


def test_different_scopes_within_a_mount_are_limited(tmp_path: pathlib.Path) -> None:
    directories = "".join(f"      d{n}: {{access: {{scopes: [s{n}, s0]}}}}\n" for n in range(7))
    assert problems(tmp_path, f"roots:\n  a:\n    path: .\n    directories:\n{directories}") == [
        "mcp-resources.yaml:11:20: roots.a.directories.d6.access: more than 6 different scopes "
        "inside one mount; move the resources that need the others to another mount"
    ]


class Plain:
    def __init__(self, size: int = 1) -> None:
        self.size = size


class Watchful:
    def __init__(self, watch: Literal["off", "hourly"] = "hourly") -> None:
        self.watch = watch


def mount(folder: pathlib.Path, cls: type | None, options: str) -> MountSpec:
    file = folder / "m.yaml"
    file.write_text(f"providers:\n  a: {{use: x.py{options}}}\n", "utf-8")
    (spec,) = load(file, find_class=lambda reference, directory: cls).mounts
    return spec


@pytest.mark.parametrize(
    ("cls", "options", "watch"),
    [
        (Plain, "", True),
        (Plain, ", watch: auto", True),
        (Plain, ", watch: off", False),
        (Plain, ", watch: '${NO_SUCH_WORD:-off}'", False),
        (Watchful, ", watch: hourly", True),
        (Watchful, ", watch: off", False),
        (None, ", watch: hourly", True),
        (None, ", watch: off", False),
    ],
)
def test_watching_can_be_switched_off_for_every_mount(
    tmp_path: pathlib.Path, cls: type | None, options: str, watch: bool
) -> None:
    assert mount(tmp_path, cls, options).watch is watch


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (Plain, "watch: of", "expected one of auto, off, found 'of'; did you mean 'off'?"),
        (Plain, "watch: hourly", "expected one of auto, off, found 'hourly'"),
        (Plain, "watch: false", "expected one of auto, off, found false"),
        (Plain, "watch: ~", "expected one of auto, off, found nothing"),
        (Plain, "watch: [off]", "expected one of auto, off, found a list"),
        (Watchful, "watch: auto", "expected one of off, hourly, found 'auto'"),
        (
            Watchful,
            "watch: hourl",
            "expected one of off, hourly, found 'hourl'; did you mean 'hourly'?",
        ),
    ],
)
def test_an_unknown_value_of_watch_is_refused(
    tmp_path: pathlib.Path, cls: type, options: str, message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        mount(tmp_path, cls, f", {options}")
    (found,) = caught.value.diagnostics
    assert (found.line, found.where, found.message) == (2, "providers.a.watch", message)


def test_watch_is_among_the_suggested_options(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ManifestError, match="wach: unknown option; did you mean 'watch'"):
        mount(tmp_path, Plain, ", wach: off")


@pytest.mark.parametrize("text", ["version: 1\n", "roots:\nproviders:\n", "server: {name: a}\n"])
def test_a_manifest_that_serves_nothing_is_refused_with_an_example(
    tmp_path: pathlib.Path, text: str
) -> None:
    assert problems(tmp_path, text) == [
        "mcp-resources.yaml:1:1: nothing to serve; write at least: roots: {project: {path: .}}"
    ]


@pytest.mark.parametrize("version", ["2", "true", "'1'", "[]", "~"])
def test_only_version_1_is_read(tmp_path: pathlib.Path, version: str) -> None:
    (found,) = problems(tmp_path, f"version: {version}\nroots: {{a: {{path: .}}}}\n")
    assert found.startswith("mcp-resources.yaml:1:10: version: expected 1, found ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sever: {}", "1:1: sever: unknown section; did you mean 'server'?"),
        (
            "xyz: {}",
            "1:1: xyz: unknown section; known: version, server, roots, databases, providers, "
            "tools, prompts, http, audit",
        ),
        ("roots: [a]", "1:8: roots: expected a mapping of names, found a list"),
        ("roots: {a: .}", "1:12: roots.a: expected a mapping of options, found '.'"),
        ("roots: {a: }", "1:9: roots.a: option 'path' is missing"),
        ("roots: {a: {path: 5}}", "1:19: roots.a.path: expected a path, found the number 5"),
        ("roots: {a: {path: ~}}", "1:19: roots.a.path: expected a path, found nothing"),
        ("roots: {a: {path: ''}}", "1:19: roots.a.path: expected a path, found ''"),
        (
            "roots: {a: {path: ~nobody-here/x}}",
            "1:19: roots.a.path: found '~nobody-here/x', but there is no such user",
        ),
        (
            "roots: {a: {path: ., exclude: dist/}}",
            "1:31: roots.a.exclude: expected a list, found 'dist/'; put it in brackets",
        ),
        (
            "roots: {a: {path: ., title: 2024}}",
            "1:29: roots.a.title: expected text, found the number 2024; put it in quotes",
        ),
        (
            "roots: {a: {path: ., maxSize: 5}}",
            "1:22: roots.a.maxSize: unknown option; did you mean 'max_size'?",
        ),
        (
            "roots: {a: {path: ., tilte: x}}",
            "1:22: roots.a.tilte: unknown option; did you mean 'title'?",
        ),
        (
            "roots: {a: {path: ., max_size: big}}",
            "1:32: roots.a.max_size: not a size; write a number of bytes, or one with a unit: "
            "64KiB, 10MB (found 'big')",
        ),
        (
            "roots: {a: {path: ., directories: {docs: {titel: x}}}}",
            "1:43: roots.a.directories.docs.titel: unknown option; did you mean 'title'?",
        ),
        (
            "roots: {a: {path: ., directories: {docs: {watch: off}}}}",
            "1:43: roots.a.directories.docs.watch: unknown option; known: title, description, "
            "annotations, listed, readable, exposed, access, include, exclude, gitignore, "
            "hidden, max_size, encoding, optional",
        ),
        (
            "roots: {a: {path: ., watch: pol}}",
            "1:29: roots.a.watch: expected one of auto, inotify, watchfiles, poll, off, "
            "found 'pol'; did you mean 'poll'?",
        ),
        (
            "roots: {a: {path: ., types: {'*.x': [y]}}}",
            '1:37: roots.a.types["*.x"]: expected text, found a list',
        ),
        (
            "roots: {a: {path: ., uri: nothing}}",
            "1:27: roots.a.uri: not a URI; write a scheme, a name and a slash: docs://handbook/ "
            "(found 'nothing')",
        ),
        (
            "roots: {a: {path: ., annotations: user}}",
            "1:35: roots.a.annotations: expected a mapping, found 'user'",
        ),
        (
            "roots: {a: {path: ., annotations: {priority: 7}}}",
            "1:46: roots.a.annotations.priority: expected 1 or less, found the number 7",
        ),
        (
            "providers: {a: {use: filesytem}}",
            "1:22: providers.a.use: unknown provider 'filesytem'; did you mean 'filesystem'?",
        ),
        (
            "providers: {a: {use: [x]}}",
            "1:22: providers.a.use: expected a provider or a .py file, found a list",
        ),
        ("server: 5", "1:9: server: expected a mapping, found the number 5"),
        (
            "server: {page_size: true}",
            "1:21: server.page_size: expected a whole number, found true",
        ),
        (
            "server: {page_size: 1001}",
            "1:21: server.page_size: expected 1000 or less, found the number 1001",
        ),
        (
            "tools: {budget: 10000000}",
            "1:17: tools.budget: expected 1000000 or less, found the number 10000000",
        ),
        (
            "tools: {budget: 1}",
            "1:17: tools.budget: expected 1000 or more, found the number 1",
        ),
        (
            "server: {page_size: 1.5}",
            "1:21: server.page_size: expected a whole number, found the number 1.5",
        ),
        (
            "server: {name: ''}",
            "1:16: server.name: expected text of 1 or more characters, found ''",
        ),
        (
            "server: {alternatives: inlin}",
            "1:24: server.alternatives: expected one of on-request, inline, found 'inlin'; "
            "did you mean 'inline'?",
        ),
    ],
)
def test_each_problem_has_its_position_the_value_found_and_a_remedy(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    if "roots" not in text and "providers" not in text:
        text += "\nroots: {z: {path: .}}"
    assert problems(tmp_path, text) == [f"mcp-resources.yaml:{message}"]


def test_two_mounts_with_one_default_base_are_refused(tmp_path: pathlib.Path) -> None:
    assert problems(tmp_path, "providers:\n  Notes: {use: x.py}\n  notes: {use: x.py}\n") == [
        "mcp-resources.yaml:3:3: providers.notes: providers.Notes on line 2 already has this base "
        "URI; give one of them another 'uri'"
    ]


def test_two_mounts_of_one_name_are_refused(tmp_path: pathlib.Path) -> None:
    assert problems(tmp_path, "roots:\n  a: {path: .}\nproviders:\n  a: {use: x.py}\n") == [
        "mcp-resources.yaml:4:3: providers.a: roots.a on line 2 already has this name"
    ]


def test_hostile_names_stay_on_one_short_line(tmp_path: pathlib.Path) -> None:
    text = '"a\\nb\\e[31m\\u202e": {}\n' + f"{'x' * 1000}: 1\nroots: {{a: {{path: .}}}}\n"
    found = problems(tmp_path, text)
    assert len(found) == 2
    assert all(line.isprintable() and len(line) < 200 for line in found)


def test_relative_paths_are_relative_to_the_manifest(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "m.yaml").write_text("roots: {a: {path: .}}")
    monkeypatch.chdir(tmp_path)
    found = load(pathlib.Path("conf/m.yaml"))
    assert (found.file, found.directory) == (pathlib.Path("conf/m.yaml"), folder)


def test_loading_runs_no_plugin_code(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plugin.py").write_text("raise SystemExit('ran')")
    found = manifest(tmp_path, "providers: {a: {use: plugin.py, anything: 1}}")
    assert found.mounts[0].options == {"anything": 1}


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(
            ["", ".", "${HOME}", "${", "filesystem", "x.py", "file:///a/", "a://", "1KiB"]
        ),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "version",
                        "server",
                        "roots",
                        "providers",
                        "a",
                        "b",
                        "path",
                        "use",
                        "uri",
                        "title",
                        "annotations",
                        "priority",
                        "include",
                        "directories",
                        "max_size",
                        "cache",
                        "ttl",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_data_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: object
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(json.dumps(data))
    assert all(found.line for found in diagnostics(file))


def test_importing_the_package_loads_neither_yaml_nor_pydantic() -> None:
    code = (
        "import sys, resource_server.manifest, resource_server.manifest.sources,"
        "resource_server.plugins; "
        "print(sorted({'yaml', 'pydantic', 'pydantic_core', 'annotated_types'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


MANY_MISTAKES = """
version: 1
roots:
  a: {path: docs, encoding: nope, max_sise: 3}
  b: {path: docs, encoding: nope, directories: {x: {encoding: nope2, bad: 1}}}
  c: {path: docs, include: ["a["], encoding: nope, types: {"*.x": "nottype"}}
databases:
  d: {url: "foo://x", queries: {q: {sql: " ", foo: 1}}, limits: {timeout: 0s, rows: -1}}
  e: {url: "sqlite:///x.db", tables: {t: {where: " ", key: [a, a], columns: {hide: [""]}}}}
http: {url: "ftp://x", auth: {tokens: [short], issuer: "http://foo", foo: 1}}
"""


def test_a_mistake_in_one_option_hides_no_mistake_in_another(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mcp-resources.yaml"
    file.write_text(MANY_MISTAKES)
    with pytest.raises(ManifestError) as refused:
        load(file)
    assert [each.where for each in refused.value.diagnostics] == [
        "roots.a.encoding",
        "roots.a.max_sise",
        "roots.b.encoding",
        "roots.b.directories.x.encoding",
        "roots.b.directories.x.bad",
        "roots.c.include",
        "roots.c.encoding",
        "roots.c.types",
        "databases.d.url",
        "databases.d.queries.q.sql",
        "databases.d.queries.q.foo",
        "databases.d.limits.timeout",
        "databases.d.limits.rows",
        "databases.e.tables.t.where",
        "databases.e.tables.t.key",
        "databases.e.tables.t.columns.hide",
        "http.url",
        "http.auth.tokens",
        "http.auth.issuer",
        "http.auth.foo",
    ]
