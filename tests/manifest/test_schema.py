from __future__ import annotations

import json
import pathlib
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft202012Validator

from resource_server.manifest import starter
from resource_server.manifest.load import load
from resource_server.manifest.schema import manifest_schema
from tests.cases import for_each

REPOSITORY = pathlib.Path(__file__).parents[2]

GOOD = [
    "version: 1\nroots: {a: {path: .}}",
    "roots: {a: {path: 's3://lake/x', region: eu-1, watch: {interval: 5m, budget: 500/h}}}",
    '{"$schema": "mcp-resources.schema.json", "roots": {"a": {"path": "."}}}',
    "roots:\n  a:\n    path: .\n    title: A\n    include: ['**']\n    exclude: [dist/]\n"
    "    gitignore: false\n    hidden: true\n    symlinks: within-root\n    max_size: 10MiB\n"
    "    encoding: latin-1\n    types: {'*.tpl': text/html}\n    watch: auto\n"
    "    annotations: {audience: [user], priority: 0.5}\n    secrets: {allow: [.env]}\n"
    "    directories: {docs: {title: D}, data: {listed: false}, scratch: }\n",
    "server: {page_size: '${SIZE:-5}', cache: {ttl: 2s, scope: private}}\nroots: {a: {path: .}}",
    "providers: {a: {use: filesystem, path: ., uri: 'docs://x/'}, b: {use: x.py, whatever: 1}}",
    "roots: {a: {path: ., convert: [pdf, text/csv]}, b: {path: ., convert: false}}",
    "providers: {a: {use: x.py, watch: off}, b: {use: filesystem, path: ., watch: poll}}",
    "providers: {a: {use: x.py, watch: {words: of its own}}}",
    "roots: {a: {from: client}, b: {from: client, allow: [., ../x], hidden: true, watch: poll}}",
    "databases: {a-b_1: {url: 'sqlite:///x.db'}}",
    "databases: {a: {url: '${DATABASE:-sqlite:///x.db}', title: A, watch: notify, interval: 1s,"
    " tables: {t: {key: [id], columns: {hide: [a], mask: {b: last4}}}, u: , 'x_*': false},"
    " queries: {q: {sql: 'select :p', parameters: {p: {type: integer, default: 5}}}},"
    " limits: {rows: 5, timeout: 2s}}}",
    "roots: {a: {path: .}}\nprompts: {p: {title: P, arguments: {f: {required: true,"
    " complete: 'file:///a/{+f}'}, g: {enum: [x], default: x}, h: }, messages: [{text: '{h}'},"
    " {role: assistant, resource: 'file:///a/{+f}'}]}}",
]
BAD = [
    "version: 2",
    "rots: {}",
    "roots: {a: {}}",
    "roots: {a: {path: 's3://lake/x', gitignore: false}}",
    "roots: {a: {path: 's3://lake/x', watch: always}}",
    "roots: {a: {path: ., exlude: []}}",
    "roots: {a: {path: ., symlinks: maybe}}",
    "roots: {a: {path: ., from: client}}",
    "roots: {a: {path: ., allow: [x]}}",
    "roots: {a: {from: server}}",
    "roots: {a: {from: client, allow: }}",
    "roots: {a: {from: client, uri: 'docs://x/'}}",
    "roots: {a: {path: ., watch: always}}",
    "roots: {'a b': {path: .}}",
    "roots: {a: {path: ., directories: {d: {titel: x}}}}",
    "server: {page_size: 0}",
    "server: {cache: {ttl: soon}}",
    "providers: {a: {}}",
    "providers: {a: {use: filesystem, path: ., pth: x}}",
    "roots: {r: {path: ., convert: [pfd]}}",
    "roots: {r: {path: ., convert: pdf}}",
    "providers: {a: {use: filesystem, path: ., watch: always}}",
    "databases: {a: {}}",
    "databases: {A: {url: 'sqlite:///x'}}",
    "databases: {a: {url: 'sqlite:///x', tables: {t: true}}}",
    "databases: {a: {url: 'sqlite:///x', tables: {t: {colums: {}}}}}",
    "databases: {a: {url: 'sqlite:///x', queries: {q: {}}}}",
    "prompts: {p: {}}",
    "prompts: {'a b': {messages: [{text: x}]}}",
    "prompts: {p: {messages: [{text: x, rle: user}]}}",
    "prompts: {p: {messages: [{text: x, role: system}]}}",
    "prompts: {p: {messages: [{text: x}], arguments: {a: {requird: true}}}}",
]


@pytest.fixture(scope="module")
def validator() -> Any:
    found = manifest_schema()
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(json.loads(json.dumps(found)))


def accepts(validator: Any, text: str) -> bool:
    return validator.is_valid(yaml.safe_load(text))


@pytest.mark.parametrize("text", GOOD)
def test_the_schema_accepts_every_manifest_that_loads(
    tmp_path: pathlib.Path, validator: Any, text: str
) -> None:
    (tmp_path / "m.yaml").write_text(text)
    assert load(tmp_path / "m.yaml")
    assert accepts(validator, text)


@for_each("text", BAD)
def test_the_schema_refuses_mistakes(validator: Any, text: str) -> None:
    assert not accepts(validator, text)


def test_the_schema_accepts_the_manifest_written_by_init(validator: Any) -> None:
    assert accepts(validator, starter.folder_manifest(REPOSITORY))


def test_the_schema_accepts_every_manifest_of_the_repository(validator: Any) -> None:
    name = "mcp-resources.yaml"
    for file in [REPOSITORY / name, *REPOSITORY.glob(f"examples/*/{name}")]:
        if file.exists():
            assert accepts(validator, file.read_text(encoding="utf-8")), file


def test_an_unimportable_installed_provider_has_an_open_schema(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[resource_server.providers]\nbad = no_such_module:X\n")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    validator = Draft202012Validator(manifest_schema())
    assert accepts(validator, "providers: {a: {use: bad, anything: 1}}")


def test_options_carry_descriptions_defaults_and_choices() -> None:
    found = manifest_schema()
    server = found["properties"]["server"]["properties"]
    assert server["page_size"] == {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": 1000},
            {"type": "string", "pattern": r"\$\{"},
        ],
        "description": "Maximum items per page of a listing. Further pages of resources have up to "
        "ten times as many, so that 64 pages reach the end of the global listing.",
        "default": 100,
    }
    assert server["alternatives"]["anyOf"][0] == {"enum": ["on-request", "inline"]}
    root = found["$defs"]["root"]
    assert root["oneOf"] == [{"required": ["path"]}, {"required": ["from"]}]
    assert root["properties"]["gitignore"]["default"] is True
    assert root["properties"]["max_size"]["default"] == "10MiB"
    assert root["properties"]["include"]["default"] == ["**"]
    assert server["cache"]["properties"]["ttl"]["default"] == "0s"
    assert server["collection_read"]["properties"]["bytes"]["default"] == "256KiB"


def test_every_option_has_a_description() -> None:
    def undescribed(node: Any, place: str) -> list[str]:
        if not isinstance(node, dict):
            return []
        found = cast("dict[str, Any]", node)
        inner = [("*", found.get("additionalProperties"))]
        inner += [("*", each) for each in found.get("anyOf", ())]
        missing: list[str] = []
        for name, option in found.get("properties", {}).items():
            missing += [] if option.get("description") else [f"{place}.{name}"]
            inner.append((name, option))
        return missing + [m for name, each in inner for m in undescribed(each, f"{place}.{name}")]

    found = manifest_schema()
    assert undescribed(found["$defs"]["root"], "root") == []
    assert undescribed(found["$defs"]["database"], "database") == []
    assert undescribed(found["properties"]["server"], "server") == []


def test_providers_are_offered_by_name() -> None:
    found = manifest_schema()
    assert (
        "filesystem"
        in found["properties"]["providers"]["additionalProperties"]["properties"]["use"]["anyOf"][
            0
        ]["enum"]
    )
