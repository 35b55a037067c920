"""Questions about the Django package, for this server and `server-filesystem`."""

from __future__ import annotations

from tests.benchmarks.agent.question import Argument, Call, Lines, Names, Question


def _listing(path: str = "", **more: Argument) -> Call:
    return "list_resources", {"uri": f"{{root}}{path}", **more}


def _reading(path: str, **more: Argument) -> Call:
    return "read_resource", {"uri": f"{{root}}/{path}", **more}


def _search(query: str, path: str = "", **more: Argument) -> Call:
    return "search_resources", {"query": query, "uri": f"{{root}}{path}", **more}


def _named(pattern: str) -> Call:
    return "list_resources", {"uri": "{root}", "pattern": pattern}


def _directory(path: str = "", tool: str = "list_directory", **more: Argument) -> Call:
    return tool, {"path": f"{{root}}{path}", **more}


def _file(path: str, **more: Argument) -> Call:
    return "read_text_file", {"path": f"{{root}}/{path}", **more}


def _found(pattern: str) -> Call:
    return "search_files", {"path": "{root}", "pattern": pattern}


QUESTIONS = (
    # What there is.
    Question(
        "a first look: what is here",
        [Names("*")],
        ours=[("list_resources", {})],
        peer=[("list_allowed_directories", {}), _directory()],
    ),
    Question(
        "what is in one directory",
        [Names("core/management/commands/*.py")],
        ours=[_listing("/core/management/commands")],
        peer=[_directory("/core/management/commands")],
    ),
    Question(
        "which migrations an application has",
        [Names("contrib/auth/migrations/0*.py")],
        ours=[_listing("/contrib/auth/migrations")],
        peer=[_directory("/contrib/auth/migrations")],
    ),
    Question(
        "a directory with sizes",
        [Names("contrib/auth/*"), r"14940|14\.59 KB", r"23335|22\.79 KB"],
        ours=[_listing("/contrib/auth")],
        peer=[_directory("/contrib/auth", "list_directory_with_sizes")],
    ),
    Question(
        "the biggest files of a directory",
        [r"query\.py", r"107026|104\.52 KB", r"base\.py", r"100964|98\.60 KB"],
        ours=[_listing("/db/models")],
        peer=[_directory("/db/models", "list_directory_with_sizes", sortBy="size")],
    ),
    Question(
        "a tree of two levels, small",
        [Names("db/*"), Names("db/*/*")],
        ours=[_listing("/db", depth=2)],
        peer=[_directory(each) for each in ("/db", "/db/backends", "/db/migrations", "/db/models")],
    ),
    Question(
        "a tree of two levels, whole",
        [Names("*"), Names("*/*")],
        ours=[_listing("", depth=2)],
        peer=[
            _directory(),
            *(
                _directory(f"/{each}")
                for each in (
                    "apps conf contrib core db dispatch forms http middleware template "
                    "templatetags test urls utils views"
                ).split()
            ),
        ],
    ),
    Question(
        "size and date of a file",
        [r"size\W+7905", "2025"],
        ours=[("resource_metadata", {"uri": "{root}/core/paginator.py"})],
        peer=[("get_file_info", {"path": "{root}/core/paginator.py"})],
    ),
    # Files by name.
    Question(
        "a file by its name",
        [r"core/paginator\.py"],
        ours=[_named("**/paginator.py")],
        peer=[_found("**/paginator.py")],
    ),
    Question(
        "all files of one name",
        [Names("**/urls.py", 2)],
        ours=[_named("**/urls.py")],
        peer=[_found("**/urls.py")],
    ),
    Question(
        "files by a part of the name",
        [Names("**/*password*.py", 2)],
        ours=[_named("**/*password*.py")],
        peer=[_found("**/*password*.py")],
    ),
    Question(
        "files of a kind below a directory",
        [Names("contrib/admin/templates/registration/*.html")],
        ours=[_listing("/contrib/admin/templates/registration")],
        peer=[_directory("/contrib/admin/templates/registration")],
    ),
    Question(
        "all templates of an application",
        [Names("contrib/admin/templates/**/*.html", 2)],
        ours=[_named("contrib/admin/templates/**/*.html")],
        peer=[_found("contrib/admin/templates/**/*.html")],
    ),
    Question(
        "a file among many of its name",
        ["de/formats.py"],
        ours=[_named("**/de/formats.py")],
        peer=[_found("**/de/formats.py")],
    ),
    Question(
        "a file that is not there",
        [r"No match|[Nn]othing|not found|^items: \[\]$"],
        ours=[_named("**/settings.py")],
        peer=[_found("**/settings.py")],
    ),
    Question(
        "a file whose name is mistyped",
        [r"core/paginator\.py"],
        ours=[_reading("core/paginators.py")],
        peer=[_file("core/paginators.py"), _found("**/paginat*.py")],
    ),
    # Reading.
    Question(
        "a small file",
        [Lines("views/decorators/gzip.py", r"\S")],
        ours=[_reading("views/decorators/gzip.py")],
        peer=[_file("views/decorators/gzip.py")],
    ),
    Question(
        "a file of 8 KB",
        [Lines("core/paginator.py", r"\S")],
        ours=[_reading("core/paginator.py")],
        peer=[_file("core/paginator.py")],
    ),
    Question(
        "two files at once",
        [Lines("http/__init__.py", "import"), Lines("urls/__init__.py", "import")],
        ours=[_reading("http/__init__.py"), _reading("urls/__init__.py")],
        peer=[
            (
                "read_multiple_files",
                {"paths": ["{root}/http/__init__.py", "{root}/urls/__init__.py"]},
            )
        ],
    ),
    Question(
        "the version, in a small file",
        [r"VERSION = \(5, 2, 8"],
        ours=[_reading("__init__.py")],
        peer=[_file("__init__.py")],
    ),
    Question(
        "the first 20 lines of a file",
        ["of MVC. In other words", "from django.http import"],
        ours=[_reading("shortcuts.py", lines="1-20")],
        peer=[_file("shortcuts.py", head=20)],
    ),
    Question(
        "the last 30 lines of a file",
        [r"def previous_page_number", "return self.paginator.per_page|end_index"],
        ours=[_reading("core/paginator.py", tail=30)],
        peer=[_file("core/paginator.py", tail=30)],
    ),
    Question(
        "lines 60 to 90 of a file",
        [r"def validate_number", r"def get_page", r"bottom = \(number - 1\)"],
        ours=[_reading("core/paginator.py", lines="60-90")],
        peer=[_file("core/paginator.py", head=90)],
    ),
    # What stands in the text.
    Question(
        "a setting's default",
        ["DATA_UPLOAD_MAX_MEMORY_SIZE = 2621440"],
        ours=[_search("DATA_UPLOAD_MAX_MEMORY_SIZE", "/conf/global_settings.py")],
        peer=[_file("conf/global_settings.py")],
        in_text=True,
    ),
    Question(
        "where a class is defined",
        [r"db/models/query\.py", r"class QuerySet\(AltersData\)", "279|_db"],
        ours=[_search('"class QuerySet("')],
        peer=[_found("db/models/query*.py"), _file("db/models/query.py", head=300)],
        in_text=True,
    ),
    Question(
        "where a class is defined, in a file of its name",
        [r"core/paginator\.py", r"class Paginator\b"],
        ours=[_search('"class Paginator"')],
        peer=[_found("**/paginator.py"), _file("core/paginator.py")],
        in_text=True,
    ),
    Question(
        "the body of a function",
        [
            Lines(
                "shortcuts.py",
                r"^def get_object_or_404|No .* matches the given query|queryset\.get\(",
            )
        ],
        ours=[
            _search('"def get_object_or_404"', "/shortcuts.py"),
            _reading("shortcuts.py", lines="64-114"),
        ],
        peer=[_file("shortcuts.py")],
        in_text=True,
    ),
    Question(
        "the classes of a module",
        [Lines("core/exceptions.py", "^class ")],
        ours=[_search("class ", "/core/exceptions.py", **{"in": "text"})],
        peer=[_file("core/exceptions.py")],
        in_text=True,
    ),
    Question(
        "who calls a function",
        [Lines("**/*.py", r"\bmake_password\(")],
        ours=[_search("make_password(")],
        peer=[],
        in_text=True,
    ),
    Question(
        "a setting, with the lines around it",
        [Lines("**/*.py", r"settings\.SECRET_KEY\b")],
        ours=[_search("settings.SECRET_KEY", context=2)],
        peer=[],
        in_text=True,
    ),
    Question(
        "a phrase, anywhere",
        [Lines("**/*.py", "[Pp]ersistent connection")],
        ours=[_search('"persistent connection"')],
        peer=[],
        in_text=True,
    ),
    Question(
        "a word in one directory only",
        [Lines("views/decorators/*.py", "csrf_exempt")],
        ours=[_search("csrf_exempt", "/views/decorators")],
        peer=[_directory("/views/decorators"), _file("views/decorators/csrf.py")],
        in_text=True,
    ),
    Question(
        "a word as it is written, not in other case",
        [Lines("shortcuts.py", r"Http404")],
        ours=[_search("Http404", "/shortcuts.py", case=True)],
        peer=[_file("shortcuts.py")],
        in_text=True,
    ),
    Question(
        "a word in files of one kind",
        [Lines("contrib/admin/templates/**/*.html", "csrf_token")],
        ours=[_search("csrf_token", "/contrib/admin", files="*.html")],
        peer=[],
        in_text=True,
    ),
    Question(
        "the translation of a word",
        ["lundi"],
        ours=[_search('msgid "Monday"', "/conf/locale/fr", context=1)],
        peer=[_file("conf/locale/fr/LC_MESSAGES/django.po")],
        in_text=True,
    ),
)
