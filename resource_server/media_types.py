"""Media types of documents: by name from a built-in table, otherwise by content.

The table gives the same type on every machine. The standard library's `mimetypes` reads the host's
files: where Debian's are installed, `a.ts` is a Qt translation. Source code without a registered
type is `text/x-…`, as in editors and libmagic.
"""

from __future__ import annotations

import codecs
import functools
import os
import re
import threading
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magic import Magic

HEAD_BYTES = 4096
"""Bytes at the beginning of a document that `from_content` examines."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and their codecs; UTF-32 first, since its mark may begin with that of UTF-16."""
_FIRST_OF_BOMS = frozenset(mark[:1] for mark, _ in _BOMS)

TYPESCRIPT = "text/x-typescript"
_PACKETS = ((188, 0), (192, 4), (204, 0))
"""Bytes of the packets of MPEG transport streams, and the place of the `G` in each: plain, with a
time before it, and with a checksum after it. Such a stream has the suffix of TypeScript."""
_TEXT = "text/plain"
_BINARY = "application/octet-stream"

_OPEN_XML = "application/vnd.openxmlformats-officedocument."
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_SUFFIXES_OF = {
    # documents and markup
    _TEXT: "txt text log err lst list srt po pot rc reg service socket timer lock env example"
    " sample template tmpl gotmpl j2 jinja jinja2 mustache hbs njk ftl vm erb ejs pug haml slim",
    "text/markdown": "md markdown mdown mkd mdx qmd rmd",
    "text/x-rst": "rst rest",
    "text/asciidoc": "adoc asciidoc",
    "text/org": "org",
    "text/html": "html htm xhtm",
    "application/xhtml+xml": "xhtml",
    "text/x-tex": "tex ltx sty bib",
    "text/rtf": "rtf",
    "text/calendar": "ics",
    "text/vcard": "vcf",
    "text/vtt": "vtt",
    "text/x-diff": "diff patch",
    "text/vnd.graphviz": "dot gv",
    "message/rfc822": "eml",
    "multipart/related": "mht mhtml",
    # data
    "text/csv": "csv",
    "text/tab-separated-values": "tsv tab",
    "application/json": "json json5 jsonc webmanifest avsc har code-workspace",
    "application/geo+json": "geojson",
    "application/ld+json": "jsonld",
    "application/x-ipynb+json": "ipynb",
    "application/jsonl": "jsonl",
    "application/x-ndjson": "ndjson",
    "application/yaml": "yaml yml",
    "application/toml": "toml",
    "application/xml": "xml xsd xsl xslt rng wsdl plist csproj fsproj vbproj vcxproj props targets"
    " resx xaml nuspec pom",
    "application/rss+xml": "rss",
    "application/atom+xml": "atom",
    "application/gpx+xml": "gpx",
    "application/vnd.google-earth.kml+xml": "kml",
    "application/rdf+xml": "rdf owl",
    "text/turtle": "ttl",
    "text/x-ini": "ini cfg conf cnf properties editorconfig desktop",
    "application/sql": "sql ddl dml psql",
    "application/graphql": "graphql gql",
    "text/x-protobuf": "proto",
    "text/x-hcl": "hcl tf tfvars nomad",
    # the web
    "text/css": "css",
    "text/x-scss": "scss",
    "text/x-sass": "sass",
    "text/x-less": "less",
    "text/javascript": "js mjs cjs",
    "text/jsx": "jsx",
    TYPESCRIPT: "ts mts cts",
    "text/tsx": "tsx",
    "text/x-vue": "vue",
    "text/x-svelte": "svelte",
    "text/x-astro": "astro",
    "image/svg+xml": "svg",
    "application/wasm": "wasm",
    # programming languages
    "text/x-python": "py pyi pyw pyx pxd",
    "text/x-c": "c h",
    "text/x-c++": "cc cpp cxx c++ hh hpp hxx h++ ipp inl cu cuh ino",
    "text/x-csharp": "cs csx",
    "text/x-fsharp": "fs fsi fsx",
    "text/x-vb": "vb",
    "text/x-objectivec": "m mm",
    "text/x-java": "java",
    "text/x-kotlin": "kt kts",
    "text/x-scala": "scala sc sbt",
    "text/x-groovy": "groovy gradle",
    "text/x-clojure": "clj cljs cljc edn",
    "text/x-go": "go",
    "text/x-rust": "rs",
    "text/x-zig": "zig",
    "text/x-nim": "nim nims",
    "text/x-d": "d",
    "text/x-swift": "swift",
    "text/x-dart": "dart",
    "text/x-ruby": "rb rake gemspec ru",
    "text/x-perl": "pl pm pod",
    "text/x-php": "php phtml",
    "text/x-lua": "lua",
    "text/x-r": "r",
    "text/x-julia": "jl",
    "text/x-haskell": "hs lhs",
    "text/x-ocaml": "ml mli",
    "text/x-elm": "elm",
    "text/x-erlang": "erl hrl",
    "text/x-elixir": "ex exs heex",
    "text/x-lisp": "lisp lsp cl el",
    "text/x-scheme": "scm ss rkt",
    "text/x-fortran": "f for f90 f95 f03 f08",
    "text/x-pascal": "pas pp dpr",
    "text/x-ada": "adb ads",
    "text/x-cobol": "cob cbl",
    "text/x-asm": "asm s",
    "text/x-verilog": "v sv vh svh",
    "text/x-vhdl": "vhd vhdl",
    "text/x-solidity": "sol",
    "text/x-nix": "nix",
    "text/x-starlark": "bzl bazel star",
    "text/x-cmake": "cmake",
    "text/x-makefile": "mk mak",
    "text/x-meson": "meson",
    "text/x-dockerfile": "dockerfile containerfile",
    "application/x-sh": "sh bash zsh ksh fish bats command",
    "text/x-powershell": "ps1 psm1 psd1",
    "text/x-msdos-batch": "bat cmd",
    "text/x-awk": "awk",
    "text/x-sed": "sed",
    "text/x-vim": "vim",
    "text/x-glsl": "glsl vert frag hlsl wgsl metal",
    # images, sound, film, fonts
    "image/png": "png apng",
    "image/jpeg": "jpg jpeg jpe jfif",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
    "image/heic": "heic heif",
    "image/jxl": "jxl",
    "image/bmp": "bmp dib",
    "image/tiff": "tif tiff",
    "image/vnd.microsoft.icon": "ico cur",
    "image/vnd.adobe.photoshop": "psd",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a m4b",
    "audio/aac": "aac",
    "audio/ogg": "ogg oga opus",
    "audio/flac": "flac",
    "audio/wav": "wav",
    "audio/aiff": "aif aiff",
    "audio/midi": "mid midi",
    "video/mp4": "mp4 m4v",
    "video/mpeg": "mpg mpeg",
    "video/mp2t": "m2ts",
    "video/quicktime": "mov qt",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/x-msvideo": "avi",
    "font/ttf": "ttf",
    "font/otf": "otf",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "model/gltf+json": "gltf",
    "model/gltf-binary": "glb",
    "model/stl": "stl",
    # office and print
    "application/pdf": "pdf",
    "application/postscript": "ps eps",
    "application/epub+zip": "epub",
    "application/msword": "doc dot",
    "application/vnd.ms-excel": "xls xlt xla xlm",
    "application/vnd.ms-powerpoint": "ppt pot pps",
    f"{_OPEN_XML}wordprocessingml.document": "docx",
    f"{_OPEN_XML}wordprocessingml.template": "dotx",
    f"{_OPEN_XML}spreadsheetml.sheet": "xlsx",
    f"{_OPEN_XML}spreadsheetml.template": "xltx",
    f"{_OPEN_XML}presentationml.presentation": "pptx",
    f"{_OPEN_XML}presentationml.template": "potx",
    f"{_OPEN_XML}presentationml.slideshow": "ppsx",
    "application/vnd.ms-word.document.macroenabled.12": "docm",
    "application/vnd.ms-word.template.macroenabled.12": "dotm",
    "application/vnd.ms-excel.sheet.macroenabled.12": "xlsm",
    "application/vnd.ms-excel.template.macroenabled.12": "xltm",
    "application/vnd.ms-excel.addin.macroenabled.12": "xlam",
    "application/vnd.ms-excel.sheet.binary.macroenabled.12": "xlsb",
    "application/vnd.ms-powerpoint.presentation.macroenabled.12": "pptm",
    "application/vnd.ms-powerpoint.template.macroenabled.12": "potm",
    "application/vnd.ms-powerpoint.slideshow.macroenabled.12": "ppsm",
    **{
        f"{_OPEN_DOCUMENT}{kind}{ending}": f"{begin}{suffix}"
        for kind, suffix, template in (
            ("text", "odt", "ott"),
            ("spreadsheet", "ods", "ots"),
            ("presentation", "odp", "otp"),
            ("graphics", "odg", "otg"),
        )
        for ending, begin, suffix in (
            ("", "", suffix),
            ("-template", "", template),
            ("-flat-xml", "f", suffix),
        )
    },
    f"{_OPEN_DOCUMENT}text-master": "odm",
    # archives, databases, programs
    "application/zip": "zip whl egg nupkg vsix",
    "application/java-archive": "jar war ear",
    "application/gzip": "gz tgz",
    "application/x-bzip2": "bz2 tbz2",
    "application/x-xz": "xz txz",
    "application/zstd": "zst tzst",
    "application/x-7z-compressed": "7z",
    "application/vnd.rar": "rar",
    "application/x-tar": "tar",
    "application/vnd.debian.binary-package": "deb",
    "application/x-rpm": "rpm",
    "application/vnd.android.package-archive": "apk",
    "application/x-iso9660-image": "iso",
    "application/vnd.sqlite3": "sqlite sqlite3 db db3 gpkg",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow feather",
    "application/vnd.apache.arrow.stream": "arrows",
    "application/x-hdf5": "h5 hdf5",
    "application/x-executable": "elf",
    "application/x-sharedlib": "so dylib",
    "application/x-object": "o",
    "application/vnd.microsoft.portable-executable": "exe dll",
    "application/x-java-class": "class",
    "application/x-python-bytecode": "pyc pyo",
    _BINARY: "bin a dmg npy npz pkl pickle pt pth onnx safetensors gguf msi",
}


def _by_word(words_of: Mapping[str, str]) -> Mapping[str, str]:
    return {word: mime for mime, words in words_of.items() for word in words.split()}


_SUFFIXES = _by_word(_SUFFIXES_OF)

_NAMES_OF = {
    _TEXT: "license licence copying notice authors contributors maintainers readme changelog"
    " changes news history todo install version codeowners .gitignore .gitattributes .gitmodules"
    " .gitkeep .mailmap .ignore .mcpignore .dockerignore .npmignore .eslintignore"
    " .prettierignore .hgignore .nvmrc .python-version .ruby-version .tool-versions"
    " .node-version .keep .env robots.txt requirements.txt constraints.txt"
    " py.typed go.sum procfile manifest.in",
    "text/x-go-mod": "go.mod go.work",
    "text/x-dockerfile": "dockerfile containerfile",
    "text/x-makefile": "makefile gnumakefile justfile",
    "text/x-cmake": "cmakelists.txt",
    "text/x-meson": "meson.build meson.options",
    "text/x-starlark": "build.bazel workspace.bazel module.bazel tiltfile",
    "text/x-ruby": "gemfile rakefile podfile fastfile vagrantfile brewfile guardfile",
    "text/x-groovy": "jenkinsfile",
    "text/x-kconfig": "kconfig",
    "application/x-sh": ".bashrc .bash_profile .bash_aliases .bash_logout .profile .zshrc .zshenv"
    " .zprofile .envrc pkgbuild configure gradlew mvnw",
    "text/x-vim": ".vimrc .gvimrc",
    "text/x-ini": ".gitconfig .editorconfig .npmrc .pypirc .flake8 .pylintrc .coveragerc .wgetrc"
    " .curlrc",
    "application/json": ".babelrc .eslintrc .prettierrc .jshintrc .swcrc .luarc composer.lock"
    " pipfile.lock flake.lock",
    "application/yaml": ".clang-format .clang-tidy .clangd .yamllint .gemrc pubspec.lock",
    "application/toml": "cargo.lock poetry.lock uv.lock pdm.lock pipfile",
}
_NAMES = _by_word(_NAMES_OF)

_STEMS = frozenset(("dockerfile", "containerfile", "makefile", "license", "licence", "jenkinsfile"))
"""Well-known names that often have another suffix: `Dockerfile.dev`, `LICENSE-MIT`."""
_STEM = re.compile(r"[a-z]+")

_MORE_TEXT = frozenset(
    "application/ecmascript application/graphql application/javascript application/json"
    " application/jsonl application/json5 application/postscript application/rtf application/sql"
    " application/toml application/typescript application/x-javascript application/x-ndjson"
    " application/x-sh application/x-yaml application/xml application/yaml message/rfc822"
    " multipart/related".split()
)
_TEXT_ENDINGS = ("+json", "+xml", "+yaml", "-flat-xml")
_BINARY_FAMILIES = ("image/", "audio/", "video/", "font/")

_INTERPRETERS_OF = {
    "application/x-sh": "ash bash dash fish ksh sh zsh",
    "text/javascript": "bun node nodejs",
    "text/x-awk": "awk gawk",
    "text/x-elixir": "elixir",
    "text/x-groovy": "groovy",
    "text/x-julia": "julia",
    "text/x-lua": "lua",
    "text/x-makefile": "make",
    "text/x-perl": "perl",
    "text/x-php": "php",
    "text/x-powershell": "pwsh",
    "text/x-python": "pypy python",
    "text/x-r": "rscript",
    "text/x-ruby": "ruby",
    "text/x-sed": "sed",
    TYPESCRIPT: "deno ts-node tsx",
}
_INTERPRETERS = _by_word(_INTERPRETERS_OF)
_SHEBANG = re.compile(
    rb"#![ \t]*(?:\S*/)?env[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*(\S+)|#![ \t]*(\S+)"
)

_TRUSTED = frozenset(
    (
        "application/epub+zip application/gzip application/java-archive application/pdf"
        " application/postscript application/vnd.debian.binary-package"
        f" {_OPEN_DOCUMENT}presentation {_OPEN_DOCUMENT}spreadsheet {_OPEN_DOCUMENT}text"
        f" {_OPEN_XML}presentationml.presentation {_OPEN_XML}spreadsheetml.sheet"
        f" {_OPEN_XML}wordprocessingml.document"
        " application/vnd.rar application/vnd.sqlite3 application/x-7z-compressed"
        " application/x-bzip2 application/x-executable application/x-hdf5"
        " application/x-pie-executable application/x-rpm application/x-sharedlib"
        " application/x-tar application/x-xz application/xml application/zip application/zstd"
        " audio/flac audio/ogg audio/wav font/woff font/woff2 image/avif image/bmp image/gif"
        " image/heic image/jpeg image/png image/svg+xml image/tiff image/vnd.microsoft.icon"
        " image/webp message/rfc822 text/calendar text/html text/rtf text/vcard text/x-diff"
        " video/mp4 video/quicktime video/webm video/x-matroska"
    ).split()
)
"""Types that are accepted from libmagic: those with a signature of three bytes or more.

Shorter signatures make one of eighty random documents a DOS program or MP4 audio (measured with
libmagic 5.41), and its guesses at programming languages take Rust for C.
"""

_OUR_SPELLING = {
    "application/x-rar": "application/vnd.rar",
    "application/x-sqlite3": "application/vnd.sqlite3",
    "audio/x-wav": "audio/wav",
    "text/xml": "application/xml",
}


@functools.lru_cache(maxsize=4096)  # names repeat: README.md, index.js
def from_name(name: str, overrides: tuple[tuple[str, str], ...] = ()) -> str | None:
    """Return the media type that a file name suggests, or None.

    `overrides` are pairs of a glob pattern and a media type. The first pattern that matches takes
    precedence over the table. Case is ignored.
    """
    name = name.lower()
    for pattern, mime in overrides:
        if fnmatchcase(name, pattern.lower()):
            return mime
    suffix = name.rpartition(".")[2]
    mime = _NAMES.get(name) or _SUFFIXES.get(suffix)
    # A suffix needs a dot: a file named `md` is not Markdown.
    if mime is not None and (suffix != name or name in _NAMES):
        return mime
    match = _STEM.match(name)
    return _NAMES[match[0]] if match and match[0] in _STEMS else None


def suffixes(mime: str) -> tuple[str, ...]:
    """Return the suffixes of documents of a media type, the usual one first."""
    return tuple(_SUFFIXES_OF.get(mime, "").split())


def from_content(head: bytes) -> str:
    """Return the media type of a document from its first `HEAD_BYTES`, if its name suggests none.

    Tries, in this order: byte order mark, NUL, strict UTF-8, the interpreter of a `#!` line,
    libmagic if it is installed, then `text/plain` or `application/octet-stream`. Call it in a
    worker thread: the first call loads libmagic (about 50 ms), and any may take 0.3 ms.
    """
    head = head[:HEAD_BYTES]
    if mark_codec(head) is not None:
        return _TEXT
    if begins_as_text(head):
        return _interpreted(head) or _sniffed(head) or _TEXT
    return _sniffed(head) or _BINARY


def refine(mime: str, head: bytes) -> str:
    """Return the media type suggested by a name, corrected by the first bytes of the document.

    Only `.ts` has two common meanings: TypeScript, and MPEG transport streams, whose packets each
    have a `G`.
    """
    if mime != TYPESCRIPT or begins_as_text(head):
        return mime
    head = head[:HEAD_BYTES]
    marks = (set(head[place::size]) for size, place in _PACKETS if len(head) >= size)
    return "video/mp2t" if {ord("G")} in marks else mime


def may_be_stream(mime: str | None, size: int) -> bool:
    """Return whether a document with a type by its name may be an MPEG stream, by its size."""
    return mime == TYPESCRIPT and not all(size % packet for packet, _ in _PACKETS)


def of_content(head: bytes, promised: str | None, *, decodes: bool) -> str:
    """Return the media type of a document from its head and the type that its name suggests.

    `decodes` is true if the document is valid text in the encoding used to read it.
    """
    if promised is not None:
        return refine(promised, head)
    mime = from_content(head)
    # `from_content` does not know legacy encodings, and does not see invalid bytes after the head.
    if decodes:
        return "text/plain" if mime == "application/octet-stream" else mime
    return "application/octet-stream" if is_text(mime) else mime


def is_text(mime: str) -> bool:
    """Return whether a media type is text: `text/*`, JSON, XML, YAML, scripts."""
    mime = mime.partition(";")[0].strip().lower()
    return mime.startswith("text/") or mime in _MORE_TEXT or mime.endswith(_TEXT_ENDINGS)


@functools.lru_cache(maxsize=512)
def is_binary(mime: str) -> bool:
    """Return whether a media type is binary, even if a document happens to be valid text.

    These are images, audio, video, fonts, and the archives, programs and databases of the table.
    Unknown types are neither text nor binary: the content decides.
    """
    mime = mime.partition(";")[0].strip().lower()
    return not is_text(mime) and (mime.startswith(_BINARY_FAMILIES) or mime in _SUFFIXES_OF)


_ENCODED = frozenset(
    (
        "message/rfc822",
        "multipart/related",
        "application/x-ipynb+json",
        *(mime for mime in _SUFFIXES_OF if mime.endswith("-flat-xml")),
    )
)
"""Mail is often in base64; notebooks hold pictures and results among their JSON."""


def is_encoded(mime: str) -> bool:
    """Return whether the bytes of a document are not what it says, even if they are text."""
    return is_binary(mime) or mime.partition(";")[0].strip().lower() in _ENCODED


def may_be_encoded(name: str) -> bool:
    """Return whether `is_encoded` may hold for the type of a name; False is certain, and quick."""
    return name.rpartition(".")[2].lower() in _encoded_suffixes()


@functools.cache
def _encoded_suffixes() -> frozenset[str]:
    return frozenset(suffix for suffix, mime in _SUFFIXES.items() if is_encoded(mime))


def mark_codec(head: bytes) -> str | None:
    """Return the codec of the byte order mark that a document begins with; None without one."""
    if head[:1] not in _FIRST_OF_BOMS:
        return None
    return next((codec for mark, codec in _BOMS if head.startswith(mark)), None)


def begins_as_text(head: bytes, codec: str = "utf-8") -> bool:
    """Return whether a document may be text by its head: valid so far, and without NUL.

    A head of `HEAD_BYTES` may end inside a character; a shorter one is the whole document.
    """
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        return "\0" not in decoder.decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeError:
        return False


def _interpreted(head: bytes) -> str | None:
    match = _SHEBANG.match(head)
    if match is None:
        return None
    program = (match[1] or match[2]).rpartition(b"/")[2].decode("utf-8", "replace").lower()
    return _INTERPRETERS.get(program) or _INTERPRETERS.get(program.rstrip("0123456789.-"))


def _sniffed(head: bytes) -> str | None:
    library = _library()
    if not head or isinstance(library, str):
        return None
    try:
        mime = library.cookie().from_buffer(head)
    except library.error:
        return None
    mime = _OUR_SPELLING.get(mime, mime)
    return mime if mime in _TRUSTED else None


def magic_problem() -> str | None:
    """Return one sentence for the operator if libmagic is unusable, else None."""
    library = _library()
    return library if isinstance(library, str) else None


class _Library:
    """The loaded libmagic, with one cookie per thread since cookies are not thread-safe."""

    def __init__(self) -> None:
        folder = _pylibmagic()
        import magic

        # The database must fit the library: another version prints thousands of warnings.
        ours = bool(folder) and str(getattr(magic.libmagic, "_name", "")).startswith(folder)
        self._database = os.path.join(folder, "magic.mgc") if ours else None
        self._magic = magic.Magic
        self._cookies = threading.local()
        self.error = magic.MagicException
        self.cookie()

    def cookie(self) -> Magic:
        cookie: Magic | None = getattr(self._cookies, "magic", None)
        if cookie is None:
            cookie = self._cookies.magic = self._magic(mime=True, magic_file=self._database)
        return cookie


def _pylibmagic() -> str:
    """Make python-magic load the library of pylibmagic; return its folder, or "" without it."""
    try:
        import pylibmagic
    except (ImportError, OSError):
        return ""
    import magic as _  # noqa: F401  Loads the library while the search path is set.

    # The import changed the search paths of this process and of every program that it starts.
    folder = str(pylibmagic.data)
    for variable in ("MAGIC", *pylibmagic.keys):
        value = os.environ.get(variable, "")
        for prefix in (os.path.join(folder, "magic.mgc"), folder):
            value = value.removeprefix(f"{prefix}{os.pathsep}")
        if value:
            os.environ[variable] = value
        else:
            os.environ.pop(variable, None)
    return folder


@functools.cache
def _library() -> _Library | str:
    lost = "files with unknown names are only classified as text or binary"
    try:
        return _Library()
    except ImportError:
        return f"libmagic is missing, so {lost}; install python-magic and pylibmagic"
    except Exception as error:  # An incompatible library may raise anything.
        return f"libmagic is unusable ({error}), so {lost}"
