from __future__ import annotations

import pathlib
from typing import Any

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest import sources
from resource_server.manifest.load import load
from resource_server.manifest.several_sources import NamedSource, joined
from tests.cases import for_each

LAKE = "s3://lake/in/2026"
MISTAKES = {
    "path: 's3://'": ("path", "names no bucket; write s3://bucket or s3://bucket/prefix"),
    "path: 's3:///x'": ("path", "names no bucket; write s3://bucket or s3://bucket/prefix"),
    "path: 's3://bucket//'": ("path", "a prefix has no empty"),
    "path: 's3://a b/x'": ("path", "a bucket has 3 or more letters, digits, '-', '_' and '.'"),
    "path: 's3://arn:aws:s3::x/y'": ("path", "a bucket has 3 or more"),
    "path: 's3://lake/../other'": ("path", "a prefix has no empty, '.' or '..' segment"),
    "path: 's3://lake//x'": ("path", "a prefix has no empty, '.' or '..' segment"),
    f"path: '{LAKE}', endpoint: storage": ("endpoint", "is no URL; write one such as https://"),
    f"path: '{LAKE}', endpoint: 'http://a:b@c'": ("endpoint", "carries a login"),
    f"path: '{LAKE}', endpoint: 'ftp://c'": ("endpoint", "is no URL"),
    f"path: '{LAKE}', endpoint: 'http://c:99999'": ("endpoint", "is no URL"),
    f"path: '{LAKE}', gitignore: false": ("gitignore", "is an option of folders on disk"),
    f"path: '{LAKE}', symlinks: deny": ("symlinks", "is an option of folders on disk"),
    f"path: '{LAKE}', index: true": ("index", "is an option of folders on disk"),
    f"path: '{LAKE}', regoin: x": ("regoin", "did you mean 'region'"),
    f"path: '{LAKE}', secret_key: x": ("secret_key", "unknown option"),
    f"path: '{LAKE}', watch: poll": ("watch", "expected"),
    f"path: '{LAKE}', watch: {{interval: 1ms}}": ("watch.interval", "write 1s or more"),
    f"path: '{LAKE}', include: ['/']": ("include", "is no pattern"),
}


def mounted(folder: pathlib.Path, options: str) -> Any:
    file = folder / "mcp-resources.yaml"
    file.write_text(f"roots:\n  lake: {{{options}}}\n")
    return load(file).mounts[0]


def test_a_root_whose_path_is_a_url_is_object_storage(tmp_path: pathlib.Path) -> None:
    options = "region: eu-1, endpoint: 'http://c:9/x', watch: {interval: 5m, budget: 500/h}"
    spec = mounted(tmp_path, f"path: '{LAKE}', {options}")
    assert (spec.use, spec.base, spec.withheld) == ("object_storage", "file:///lake/", {})


@for_each("options", MISTAKES)
def test_a_mistake_in_a_root_of_object_storage_is_reported_at_its_word(
    options: str, tmp_path: pathlib.Path
) -> None:
    where, words = MISTAKES[options]
    with pytest.raises(ManifestError) as caught:
        mounted(tmp_path, options)
    (found,) = caught.value.diagnostics
    assert found.line == 2
    assert f"roots.lake.{where}" in found.where
    assert words in found.message


def test_a_url_is_a_source_named_after_its_last_segment() -> None:
    (spec,) = sources.find_manifest(LAKE).mounts
    assert (spec.name, spec.base) == ("2026", "file:///2026/")
    assert sources.is_source(LAKE)
    assert sources.manifest_file(LAKE) is None
    with pytest.raises(ManifestError, match="names no bucket"):
        sources.find_manifest("s3://")


def test_buckets_beside_each_other_have_names_of_their_own(tmp_path: pathlib.Path) -> None:
    (tmp_path / "2026").mkdir()
    named = [
        "s3://lake/in/2026",
        "s3://lake/out/2026",
        "s3://lake/in/2026/",
        str(tmp_path / "2026"),
    ]
    found = joined([NamedSource(each, sources.find_manifest(each)) for each in named])
    assert len({spec.base for spec in found.mounts}) == 3
