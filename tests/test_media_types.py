from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
import zipfile

import pytest

from resource_server import media_types
from resource_server.media_types import (
    begins_as_text,
    from_content,
    from_name,
    is_binary,
    is_text,
    magic_problem,
    refine,
)
from tests.cases import for_each

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"

needs_magic = pytest.mark.skipif(magic_problem() is not None, reason=str(magic_problem()))


# --- by name


@for_each(
    ("name", "mime"),
    [
        ("a.py", "text/x-python"),
        ("A.PY", "text/x-python"),
        ("a.ts", "text/x-typescript"),
        ("a.d.ts", "text/x-typescript"),
        ("a.rs", "text/x-rust"),
        ("README.md", "text/markdown"),
        ("data.yaml", "application/yaml"),
        ("data.json", "application/json"),
        ("table.csv", "text/csv"),
        ("logo.svg", "image/svg+xml"),
        ("photo.JPEG", "image/jpeg"),
        ("backup.tar.gz", "application/gzip"),
        ("jquery.min.js", "text/javascript"),
        ("shop.sqlite", "application/vnd.sqlite3"),
        ("Dockerfile", "text/x-dockerfile"),
        ("Dockerfile.dev", "text/x-dockerfile"),
        ("api.dockerfile", "text/x-dockerfile"),
        ("Makefile", "text/x-makefile"),
        ("LICENSE", "text/plain"),
        ("LICENSE-MIT", "text/plain"),
        ("LICENSE.md", "text/markdown"),
        (".gitignore", "text/plain"),
        ("go.mod", "text/x-go-mod"),
        ("Cargo.lock", "application/toml"),
        ("CMakeLists.txt", "text/x-cmake"),
        (".json", "application/json"),
        ("café \n\udcff.txt", "text/plain"),
        ("md", None),
        ("py", None),
        ("noidea", None),
        ("noidea.xyz", None),
        ("licensed", None),
        ("a.", None),
        (".", None),
        ("", None),
    ],
)
def test_a_name_has_a_type_or_none(name: str, mime: str | None) -> None:
    assert from_name(name) == mime


def test_the_first_override_that_matches_wins_over_the_table() -> None:
    overrides = (("*.TPL", "text/html"), ("report*.txt", "text/x-report"), ("*.txt", "text/x-any"))
    assert from_name("a.tpl", overrides) == "text/html"
    assert from_name("Report-1.TXT", overrides) == "text/x-report"
    assert from_name("a.txt", overrides) == "text/x-any"
    assert from_name("a.py", overrides) == "text/x-python"


def test_media_types_do_not_depend_on_the_host() -> None:
    code = "import resource_server.media_types, sys; print('mimetypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


# --- text and binary


@for_each(
    "mime",
    [
        "text/plain",
        "text/x-python",
        "Text/HTML; charset=utf-8",
        "application/json",
        "application/ld+json",
        "application/xml",
        "image/svg+xml",
        "application/yaml",
        "application/toml",
        "application/sql",
        "application/x-sh",
        "application/javascript",
    ],
)
def test_a_textual_type_is_text(mime: str) -> None:
    assert is_text(mime)
    assert not is_binary(mime)


@for_each("mime", ["image/png", "audio/x-anything", "video/mp4", "font/woff2", "application/pdf"])
def test_a_type_of_images_or_programs_is_binary(mime: str) -> None:
    assert is_binary(mime)
    assert not is_text(mime)


def test_an_unknown_type_is_neither_text_nor_binary() -> None:
    assert not is_text("application/vnd.acme")
    assert not is_binary("application/vnd.acme")


def test_every_type_of_the_table_is_text_or_binary() -> None:
    names = [f"a.{suffix}" for suffix in media_types._SUFFIXES]  # pyright: ignore[reportPrivateUsage]
    assert len(names) > 200
    for name in names:
        mime = from_name(name)
        assert mime
        assert is_text(mime) != is_binary(mime)


# --- by content


@for_each(
    ("head", "mime"),
    [
        (b"", "text/plain"),
        (b"plain words\n", "text/plain"),
        ("naïve".encode(), "text/plain"),
        (b"\xef\xbb\xbfmarked", "text/plain"),
        (b"\xff\xfea\0", "text/plain"),
        (b"caf\xe9", "application/octet-stream"),
        (b"nul\0", "application/octet-stream"),
        (b"\xed\xa0\x80", "application/octet-stream"),
        (b"#!/bin/sh\n", "application/x-sh"),
        (b"#! /usr/bin/perl -w\n", "text/x-perl"),
        (b"#!/usr/bin/env python3\n", "text/x-python"),
        (b"#!/usr/bin/env -S LANG=C python3.12 -u\r\n", "text/x-python"),
        (b"#!/usr/local/bin/node\n", "text/javascript"),
        (b"#!/opt/unheard-of\n", "text/plain"),
        (b"#!", "text/plain"),
        (b"#!\n/bin/sh", "text/plain"),
        (b"use std::io;\nfn main() {}\n", "text/plain"),
        (b"package main\n\nfunc main() {}\n", "text/plain"),
    ],
)
def test_the_first_bytes_determine_the_type(head: bytes, mime: str) -> None:
    assert from_content(head) == mime


def test_a_head_that_ends_within_a_character_is_text() -> None:
    text = "x" + "é" * media_types.HEAD_BYTES
    assert from_content(text.encode()) == "text/plain"
    assert begins_as_text(bytes(text, "utf-8")[: media_types.HEAD_BYTES])


def test_a_document_that_ends_within_a_character_is_not_text() -> None:
    assert not begins_as_text(b"x\xc3")
    assert begins_as_text(b"x\xc3\xa9")


def archive(**members: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as writer:
        for name, text in members.items():
            writer.writestr(name, text)
    return buffer.getvalue()


@needs_magic
@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (PNG, "image/png"),
        (b"%PDF-1.7\n%\xe2\xe3\n", "application/pdf"),
        (gzip.compress(b"x", mtime=0), "application/gzip"),
        (archive(a="b"), "application/zip"),
        (archive(mimetype="application/epub+zip"), "application/epub+zip"),
        (b"<!DOCTYPE html>\n<html><body>", "text/html"),
        (b'<?xml version="1.0"?>\n<a/>', "application/xml"),
    ],
)
def test_libmagic_is_used_for_reliable_types(head: bytes, mime: str) -> None:
    assert from_content(head) == mime


@needs_magic
@pytest.mark.parametrize(
    "head",
    [
        # What libmagic calls a DOS program, MP4 sound, and a Targa image.
        b"\xeb\x76\x90" + b"\xa5" * 600,
        b"\xff\xf1\x50\x80" + b"\x9c" * 600,
        b"\0\0\2\0\0\0\0\0\0\0\0\0\x10\0\x10\0\x20\x08" + b"\xa5" * 600,
    ],
)
def test_weak_guesses_of_libmagic_are_ignored(head: bytes) -> None:
    assert from_content(head) == "application/octet-stream"


@needs_magic
def test_threads_may_use_libmagic_concurrently() -> None:
    answers: list[str] = []

    def ask() -> None:
        answers.extend(from_content(PNG) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert answers == ["image/png"] * 200


@needs_magic
def test_loading_libmagic_leaves_the_environment_unchanged() -> None:
    code = (
        "import os, sys; from resource_server.media_types import magic_problem\n"
        "before = dict(os.environ); assert 'magic' not in sys.modules\n"
        "problem = magic_problem(); print(problem, os.environ == before)"
    )
    environment = os.environ | {"LD_LIBRARY_PATH": "/a:/b"}
    for variable in ("MAGIC", "LIBRARY_PATH"):
        environment.pop(variable, None)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environment
    )
    assert (done.stdout, done.stderr) == ("None True\n", "")


def asked_without(module: str, body: str) -> str:
    """Ask in a process where a module cannot be imported, or is another."""
    code = (
        f"import sys, types; {body}\n"
        f"sys.modules[{module!r}] = replacement\n"
        "from resource_server.media_types import from_content, magic_problem\n"
        "print(from_content(b'%PDF-1.7\\n\\xe2'), from_content(b'words'), magic_problem())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    return done.stdout


def test_without_libmagic_text_and_binary_are_still_distinguished() -> None:
    answer = asked_without("magic", "replacement = None")
    assert answer.startswith("application/octet-stream text/plain libmagic is missing, so")


def test_a_broken_libmagic_is_reported_without_failing() -> None:
    answer = asked_without("magic", "replacement = types.ModuleType('magic')")
    assert answer.startswith("application/octet-stream text/plain libmagic is unusable (")


@needs_magic
def test_a_previously_loaded_libmagic_keeps_its_database() -> None:
    answer = asked_without("unrelated", "import magic; replacement = None")
    assert answer.split()[1] == "text/plain"


# --- once the bytes are known


def test_an_mpeg_transport_stream_is_not_typescript() -> None:
    assert refine("text/x-typescript", (b"G" + bytes(187)) * 3) == "video/mp2t"
    assert refine("text/x-typescript", (bytes(4) + b"G" + bytes(187)) * 3) == "video/mp2t"
    assert refine("text/x-typescript", (b"G" + bytes(203)) * 3) == "video/mp2t"
    assert refine("text/x-typescript", "aG".encode("utf-16")) == "text/x-typescript"
    assert refine("text/x-typescript", b"G" * 400) == "text/x-typescript"
    assert refine("text/x-typescript", b"") == "text/x-typescript"
    assert refine("text/plain", (b"G" + bytes(187)) * 3) == "text/plain"


def test_every_name_of_an_encoded_document_may_be_one() -> None:
    suffixes, names = media_types._SUFFIXES, media_types._NAMES  # pyright: ignore[reportPrivateUsage]
    for name in (*names, *(f"a.{suffix}" for suffix in suffixes), "A.PDF", "Makefile.gz"):
        mime = from_name(name)
        is_encoded = mime is not None and media_types.is_encoded(mime)
        assert media_types.may_be_encoded(name) == is_encoded
