from __future__ import annotations

import pathlib
import sys
import textwrap
from typing import Any

import pytest

from resource_server import plugins
from resource_server.errors import ManifestError
from resource_server.manifest import Manifest, MountSpec, sources
from resource_server.runtime import installation

BODY = """
    templates = ()
    def list(self, parent, *, after, limit): return []
    def metadata(self, path): raise LookupError
    def read(self, path, query): return []
"""
HEAD = """\
from __future__ import annotations
import pathlib
from dataclasses import dataclass, field
from typing import Any, Literal
from resource_server.provider import Annotations, ByteSize
"""
SIMPLE = f"{HEAD}\n@dataclass\nclass Simple:\n    size: int = 1\n{BODY}"


class Project:
    """A folder with a manifest and plugins."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def plugin(self, text: str, name: str = "plugin.py") -> None:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def manifest(self, text: str, *, checked: bool = False) -> Manifest:
        file = self.folder / "mcp-resources.yaml"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return plugins.find_with_plugins(str(file)) if checked else sources.find_manifest(str(file))

    def load(self, options: str = "", use: str = "plugin.py") -> Any:
        """Return the provider of a mount with these options."""
        manifest = self.manifest(
            f"providers:\n  p:\n    use: {use}\n" + textwrap.indent(options, "    ")
        )
        return plugins.load_provider(manifest.mounts[0], manifest)

    def problems(self, options: str = "", use: str = "plugin.py") -> list[str]:
        with pytest.raises(ManifestError) as caught:
            self.load(options, use)
        return [
            str(found).removeprefix(f"{self.folder}/mcp-resources.yaml:")
            for found in caught.value.diagnostics
        ]


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Project:
    return Project(tmp_path)


# -- which class


@pytest.mark.guarantee("plugins-are-named")
def test_a_file_beside_the_manifest_is_a_provider(project: Project) -> None:
    project.plugin(SIMPLE)
    provider = project.load("size: 5")
    assert (type(provider).__name__, provider.size) == ("Simple", 5)


def test_a_plugin_file_may_have_any_path(project: Project) -> None:
    project.plugin(SIMPLE, "elsewhere/plugin.py")
    assert project.load(use="elsewhere/plugin.py").size == 1
    assert project.load(use=f"{project.folder}/elsewhere/plugin.py").size == 1


def test_two_mounts_of_one_file_load_it_once(project: Project) -> None:
    project.plugin(SIMPLE)
    manifest = project.manifest(
        "providers:\n  a: {use: plugin.py, size: 1}\n  b: {use: ./plugin.py, size: 2}\n"
    )
    first, second = (plugins.load_provider(spec, manifest) for spec in manifest.mounts)
    assert type(first) is type(second)
    assert first != second


def test_a_plugin_does_not_shadow_modules(project: Project) -> None:
    project.plugin(SIMPLE, "json.py")
    provider = project.load(use="json.py")
    assert type(provider).__module__ != "json"
    assert "Simple" not in vars(sys.modules["json"])
    assert str(project.folder) not in sys.path


def test_a_built_in_is_loaded_by_its_name(project: Project) -> None:
    (project.folder / "docs").mkdir()
    provider = project.load("path: docs", use="filesystem")
    assert provider.path == project.folder / "docs"


def test_a_provider_object_is_used_unchanged(tmp_path: pathlib.Path) -> None:
    provider: Any = object()
    spec = MountSpec(name="a", base="a://b/", use=provider)
    assert plugins.load_provider(spec, Manifest(file=None, directory=tmp_path)) is provider


def test_a_mount_without_a_file_is_named_in_its_problems(tmp_path: pathlib.Path) -> None:
    spec = MountSpec(name="a", base="a://b/", use="filesystem", options={"path": 5})
    with pytest.raises(ManifestError) as caught:
        plugins.load_provider(spec, Manifest(file=None, directory=tmp_path))
    assert str(caught.value) == "mount a: path: expected a path, found the number 5"


def test_the_watch_option_belongs_to_the_mount_unless_the_provider_has_one(
    project: Project,
) -> None:
    project.plugin(SIMPLE)
    assert project.load("watch: off").size == 1
    assert project.problems("watch: poll") == [
        "4:12: providers.p.watch: expected one of auto, off, found 'poll'"
    ]
    (project.folder / "own.py").write_text(SIMPLE.replace("size: int = 1", "watch: str"), "utf-8")
    assert project.load("watch: poll", use="own.py").watch == "poll"


def test_several_classes_require_a_class_name(project: Project) -> None:
    project.plugin(f"{SIMPLE}\nclass Other:\n{BODY}\nclass _Private(Other): pass\nAlias = Other\n")
    assert project.problems() == [
        "3:10: providers.p.use: several providers in 'plugin.py': Simple, Other; "
        "name one: plugin.py:Simple"
    ]
    assert type(project.load(use="plugin.py:Other")).__name__ == "Other"
    assert project.problems(use="plugin.py:Othr") == [
        "3:10: providers.p.use: no class 'Othr' in 'plugin.py'; did you mean 'Other'?"
    ]


def test_classes_with_a_field_of_the_decorators_are_not_combined(project: Project) -> None:
    project.plugin(
        SIMPLE.replace("size: int = 1", "refresh_s: int = 1") + "class B(Simple): pass\n"
    )
    assert "several providers in 'plugin.py': Simple, B" in project.problems()[0]


def test_imported_classes_are_not_providers_of_a_file(project: Project) -> None:
    project.plugin(f"{SIMPLE}\nfrom resource_server.providers.filesystem import Filesystem\n")
    assert project.load().size == 1


def test_templates_may_be_a_dataclass_field(project: Project) -> None:
    body = BODY.replace("templates = ()", "templates: tuple[str, ...]")
    project.plugin(f"{HEAD}\n@dataclass\nclass Fields:\n{body}")
    assert project.load("templates: [x]").templates == ("x",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "class A:\n    templates = ()\n    def list(self): ...\n    def read(self): ...\n",
            "class A in 'plugin.py' lacks metadata",
        ),
        ("x = 1\n", "no provider class in 'plugin.py'; one has templates, list, metadata, read"),
        (
            "class A: pass\n",
            "no provider class in 'plugin.py'; one has templates, list, metadata, read",
        ),
        (
            "def notes(): return {}\n",
            "no provider class in 'plugin.py'; the function notes becomes one by @documents, "
            "@document or @template of resource_server.provider.simple",
        ),
        ("x = 1\n\ndef f(:\n", "plugin.py:3: invalid syntax"),
        ("\n1 / 0\n", "plugin.py:2: ZeroDivisionError: division by zero"),
        ("import sys\nprint('bye')\nsys.exit(3)\n", "plugin.py:3: SystemExit: 3"),
        ("raise BaseException('gone')\n", "plugin.py:1: BaseException: gone"),
        (
            "class Meta(type):\n    def __getattr__(cls, name): raise OSError('no')\n\n"
            "class A(metaclass=Meta): pass\n",
            "OSError: no",
        ),
        (
            "from . import other\n",
            "plugin.py:1: ImportError: attempted relative import with no known parent package",
        ),
        (
            "import no_such_module_here.deep\n",
            "plugin.py needs the module 'no_such_module_here', which is not installed; "
            f"install the package that has it: {installation.detect().package_command('PACKAGE')}",
        ),
        ("\0", "plugin.py: source code string cannot contain null bytes"),
    ],
)
def test_a_file_without_a_usable_provider_is_refused_with_the_reason(
    project: Project, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    project.plugin(text)
    (found,) = project.problems()
    assert found.startswith(f"3:10: providers.p.use: {message}")
    assert capsys.readouterr().out == ""


def test_a_file_that_failed_to_load_is_retried(project: Project) -> None:
    project.plugin("1 / 0\n")
    assert project.problems()
    project.plugin(SIMPLE)
    assert project.load().size == 1


def test_a_missing_file_is_named(project: Project) -> None:
    assert project.problems(use="plugins/nothing.py") == [
        "3:10: providers.p.use: no such file: 'plugins/nothing.py'"
    ]


def test_an_unknown_provider_is_refused_with_the_known_names(project: Project) -> None:
    assert project.problems(use="s3") == [
        "3:10: providers.p.use: unknown provider 's3'; "
        + "known: filesystem, database, object_storage, or a .py file"
    ]


# -- installed packages


@pytest.fixture
def installed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that offers providers through entry points."""
    site = tmp_path / "site"
    info = site / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[resource_server.providers]\n"
        "demo = demo_of_resource_server:Simple\n"
        "module = demo_of_resource_server\n"
        "number = demo_of_resource_server:number\n"
        "gone = demo_of_resource_server:Gone\n"
        "missing = no_such_module_here\n"
        "filesystem = demo_of_resource_server:Simple\n"
    )
    (site / "demo_of_resource_server.py").write_text(f"{SIMPLE}\nnumber = 5\n")
    monkeypatch.syspath_prepend(site)  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.delitem(sys.modules, "demo_of_resource_server", raising=False)


@pytest.mark.usefixtures("installed")
def test_an_installed_provider_is_loaded_by_its_name(project: Project) -> None:
    assert project.load("size: 3", use="demo").size == 3
    assert project.load("size: 4", use="module").size == 4


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", "provider 'number' (demo_of_resource_server:number) is not a class"),
        ("gone", "provider 'gone' (demo_of_resource_server:Gone): AttributeError: "),
        ("missing", "provider 'missing' (no_such_module_here) needs the module "),
        ("dem", "unknown provider 'dem'; did you mean 'demo'?"),
    ],
)
def test_an_unloadable_installed_provider_is_refused_with_the_reason(
    project: Project, name: str, message: str
) -> None:
    (found,) = project.problems(use=name)
    assert found.startswith(f"3:10: providers.p.use: {message}")


@pytest.mark.guarantee("plugins-are-named")
@pytest.mark.usefixtures("installed")
def test_a_package_cannot_replace_a_built_in(project: Project) -> None:
    assert type(project.load("path: .", use="filesystem")).__name__ == "Filesystem"


# -- whether plugins may run


@pytest.mark.guarantee("plugins-are-named")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("use", ["plugin.py", "demo"])
def test_no_plugin_code_runs_if_plugins_are_not_allowed(
    project: Project, capsys: pytest.CaptureFixture[str], use: str
) -> None:
    project.plugin("import sys; print('ran', file=sys.stderr)\n")
    manifest = project.manifest(f"providers:\n  p: {{use: {use}}}\n")
    with pytest.raises(ManifestError) as caught:
        plugins.load_provider(manifest.mounts[0], manifest, allow_plugins=False)
    assert str(caught.value).endswith(
        f":2:12: providers.p.use: '{use}' is a plugin, and plugins are not allowed"
    )
    assert capsys.readouterr().err == ""
    assert "demo_of_resource_server" not in sys.modules


@pytest.mark.guarantee("plugins-are-named")
def test_built_in_providers_load_if_plugins_are_not_allowed(project: Project) -> None:
    manifest = project.manifest("roots: {a: {path: .}}")
    assert plugins.load_provider(manifest.mounts[0], manifest, allow_plugins=False)


def test_plugin_problems_are_reported_with_all_others(project: Project) -> None:
    project.plugin(SIMPLE)
    with pytest.raises(ManifestError) as caught:
        project.manifest(
            """\
            sever: {}
            providers:
              a: {use: plugin.py, siz: 5}
              b: {use: nothing.py}
            roots:
              c: {path: ., exlude: []}
            """,
            checked=True,
        )
    assert [(d.line, d.column, d.where) for d in caught.value.diagnostics] == [
        (1, 1, "sever"),
        (3, 23, "providers.a.siz"),
        (4, 12, "providers.b.use"),
        (6, 16, "roots.c.exlude"),
    ]


# -- options

RICH = f"""{HEAD}
from typing import Annotated
from msgspec import Meta
from pydantic import Field

@dataclass(frozen=True)
class Inner:
    file: pathlib.Path
    names: tuple[str, ...] = ()

@dataclass(kw_only=True)
class Rich:
    path: pathlib.Path
    maybe: pathlib.Path | None = None
    paths: list[pathlib.Path] = field(default_factory=list)
    by_name: dict[str, pathlib.Path] = field(default_factory=dict)
    pair: tuple[pathlib.Path, int] | None = None
    inner: Inner | None = None
    inners: dict[str, Inner | bool] = field(default_factory=dict)
    annotations_: Annotations | None = None
    size: ByteSize | Literal["auto"] = "auto"
    number: Annotated[int, Meta(ge=1)] = 1
    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.5
    word: int | str = ""
    few: Annotated[list[str], Field(max_length=2)] = field(default_factory=list)
    unique: frozenset[str] = frozenset()
    anything: Any = None
    _private: int = 0
    hidden: int = field(default=0, init=False)
{BODY}"""


def test_options_are_converted_to_their_types(project: Project) -> None:
    project.plugin(RICH)
    found = project.load(
        """\
        path: a
        maybe: ../b
        paths: [c, /d]
        by_name: {e: f}
        pair: [g, 5]
        inner: {file: h, names: [x]}
        inners: {i: {file: j}, k: false}
        annotations_: {audience: [user], priority: 1}
        size: 4KiB
        number: "7"
        ratio: 0.25
        word: "5"
        few: [x]
        unique: [a, a]
        anything: {deep: [1, null]}
        """.replace(" " * 8, "")
    )
    here = project.folder
    assert (found.path, found.maybe) == (here / "a", here / "../b")
    assert found.paths == [here / "c", pathlib.Path("/d")]
    assert found.by_name == {"e": here / "f"}
    assert found.pair == (here / "g", 5)
    assert (found.inner.file, found.inner.names) == (here / "h", ("x",))
    assert (found.inners["i"].file, found.inners["k"]) == (here / "j", False)
    assert (found.annotations_.audience, found.annotations_.priority) == (("user",), 1)
    assert (found.size, found.number, found.ratio, found.word) == (4096, 7, 0.25, "5")
    assert (found.few, found.unique) == (["x"], frozenset("a"))
    assert found.anything == {"deep": [1, None]}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("pth: b", "5:5: providers.p.pth: unknown option; did you mean 'path'?"),
        ("_private: 1", "5:5: providers.p._private: unknown option"),
        ("hidden: 1", "5:5: providers.p.hidden: unknown option"),
        ("paths: [5]", "5:13: providers.p.paths[0]: expected a path, found the number 5"),
        ("pair: [a]", "5:11: providers.p.pair: expected 2 items, found 1"),
        ("pair: [a, x]", "5:15: providers.p.pair[1]: expected a whole number, found 'x'"),
        ("inner: {}", "5:5: providers.p.inner: option 'file' is missing"),
        ("inners: {a: {fil: x}}", "5:14: providers.p.inners.a: option 'file' is missing"),
        (
            "inners: {a: 7}",
            "5:17: providers.p.inners.a: expected true or false, found the number 7",
        ),
        (
            "size: atuo",
            "5:11: providers.p.size: expected a size such as 64KiB or auto, found 'atuo'",
        ),
        ("number: 0", "5:13: providers.p.number: expected 1 or more, found the number 0"),
        ("ratio: 1", "5:12: providers.p.ratio: expected less than 1, found the number 1"),
        ("word: [a]", "5:11: providers.p.word: expected a whole number or text, found a list"),
        ("few: [a, b, c]", "5:10: providers.p.few: expected 2 or fewer items, found a list"),
        (
            "annotations_: {audience: [me]}",
            "5:31: providers.p.annotations_.audience[0]: expected one of user, assistant, "
            "found 'me'",
        ),
    ],
)
def test_an_invalid_option_is_reported_at_its_position(
    project: Project, option: str, message: str
) -> None:
    project.plugin(RICH)
    found = project.problems(f"path: a\n{option}")
    assert found[0].startswith(message)


def test_a_missing_option_is_reported_at_the_mount(project: Project) -> None:
    project.plugin(RICH)
    assert project.problems() == ["2:3: providers.p: option 'path' is missing"]


def test_a_plain_class_has_the_options_of_its_constructor(project: Project) -> None:
    project.plugin(
        f"{HEAD}\nclass Plain:\n"
        "    def __init__(self, path: pathlib.Path, *, untyped='x'):\n"
        f"        self.path, self.untyped = path, untyped\n{BODY}"
    )
    assert project.load("path: a\nuntyped: [1]").path == project.folder / "a"
    assert project.load("path: a\nuntyped: [1]").untyped == [1]
    assert project.problems("pth: a") == [
        "2:3: providers.p: option 'path' is missing",
        "4:5: providers.p.pth: unknown option; did you mean 'path'?",
    ]


def test_a_provider_may_be_a_pydantic_model(project: Project) -> None:
    body = BODY.replace("templates = ()", "templates: tuple[str, ...] = ()")
    project.plugin(
        f"{HEAD}\nfrom pydantic import BaseModel\nclass Model(BaseModel):\n    size: int\n{body}"
    )
    assert project.load("size: 5").size == 5
    assert project.problems("siz: 5") == [
        "2:3: providers.p: option 'size' is missing",
        "4:5: providers.p.siz: unknown option; did you mean 'size'?",
    ]


def test_a_class_with_pydantic_validation_is_built_by_pydantic(project: Project) -> None:
    project.plugin(
        f"{HEAD}\nfrom pydantic import BaseModel\n"
        "class Login(BaseModel):\n    user: str\n    port: int = 1\n\n"
        f"@dataclass\nclass Modelled:\n    login: Login\n{BODY}"
    )
    assert project.load("login: {user: a, port: 5}", use="plugin.py:Modelled").login.port == 5
    assert project.problems("login: {user: a, port: x}", use="plugin.py:Modelled") == [
        "4:28: providers.p.login.port: expected a valid integer, unable to parse string as an "
        "integer, found 'x'"
    ]


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("ValueError('size: too odd')", "4:11: providers.p.size: too odd"),
        ("ValueError('too\\nodd')", "2:3: providers.p: too odd"),
        ("KeyError('x')", "2:3: providers.p: KeyError: 'x'"),
        ("SystemExit(2)", "2:3: providers.p: SystemExit: 2"),
        ("BaseException('x')", "2:3: providers.p: BaseException: x"),
        ("Silent()", "2:3: providers.p: Silent: Silent without a message"),
        ("ValueError('x' * 100_000)", f"2:3: providers.p: {'x' * 499}…"),
    ],
)
def test_an_option_error_raised_by_a_provider_is_a_problem_of_its_mount(
    project: Project, raised: str, message: str
) -> None:
    project.plugin(
        f"{HEAD}\nclass Silent(Exception):\n    def __str__(self): return 1 / 0\n"
        "@dataclass\nclass Odd:\n    size: int\n"
        f"    def __post_init__(self): raise {raised}\n{BODY}"
    )
    assert project.problems("size: 5") == [message]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (
            "size: Nowhere",
            "2:3: providers.p: the options of Odd cannot be determined: "
            "name 'Nowhere' is not defined",
        ),
        ("size: Plain", "4:5: providers.p.size: the type of this option is not supported: "),
    ],
)
def test_an_unsupported_option_type_is_named(project: Project, field: str, message: str) -> None:
    project.plugin(f"{HEAD}\nclass Plain: pass\n@dataclass\nclass Odd:\n    {field}\n{BODY}")
    (found,) = project.problems("size: 5")
    assert found.startswith(message)


def test_plugin_errors_do_not_contain_values_of_variables(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hidden\n'value'")
    project.plugin(
        f"{HEAD}\n@dataclass\nclass Odd:\n    token: str\n"
        "    def __post_init__(self): raise ValueError(f'bad {self.token} {self.token!r}')\n"
        f"{BODY}"
    )
    assert project.problems("token: ${TOKEN}") == ['2:3: providers.p: bad ${TOKEN} "${TOKEN}"']


def test_a_failing_validator_is_a_problem_of_its_mount(project: Project) -> None:
    project.plugin(
        f"{HEAD}\nfrom typing import Annotated\nfrom pydantic import BeforeValidator\n"
        "def fail(value): raise OSError('no')\n"
        f"@dataclass\nclass Odd:\n    size: Annotated[int, BeforeValidator(fail)]\n{BODY}"
    )
    assert project.problems("size: 5") == ["3:10: providers.p.use: OSError: no"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"A": "secret-of-a", "B": "TOKEN", "TOKEN": "abcdefgh"}, "${A} ${B} ${TOKEN}"),
        ({"A": "of", "B": "a", "TOKEN": "abcdefgh"}, "of a ${TOKEN}"),
    ],
)
def test_each_value_is_replaced_once_unless_it_is_too_short_to_be_secret(
    project: Project, monkeypatch: pytest.MonkeyPatch, values: dict[str, str], shown: str
) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    project.plugin(
        f"{HEAD}\n@dataclass\nclass Odd:\n    words: list[str]\n"
        f"    def __post_init__(self): raise ValueError(' '.join(self.words))\n{BODY}"
    )
    found = project.problems("words: ['${A}', '${B}', '${TOKEN}']")
    assert found == [f"2:3: providers.p: {shown}"]


def test_a_provider_may_have_another_name_than_its_class(project: Project) -> None:
    project.plugin(f"{SIMPLE}\nSmall, other = Simple, Simple\ndel Simple\n")
    assert project.load().size == 1
    assert project.load(use="plugin.py:Small").size == 1
