from __future__ import annotations

import inspect
import re

import pytest

from resource_server import errors
from resource_server.errors import (
    DeadlineExceeded,
    Diagnostic,
    Interrupted,
    ManifestError,
    MountUnavailable,
    ProviderFailed,
    ResourceNotFound,
    ResourceServerError,
    ResourceTooLarge,
    ResourceUnreadable,
    RuleUnmatched,
)


def test_the_tree_in_the_documentation_is_that_of_the_classes() -> None:
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if (found := re.match(r"( {4}[│├└─ ]*)([A-Z]\w+)", line)) is None:
            continue
        depth, name = len(found[1]) // 4, found[2]
        above[depth] = name
        bases = [each.__name__ for each in getattr(errors, name).__bases__]
        assert bases == [above.get(depth - 1, "Exception")], name
    assert len(above) == 4


def test_every_error_of_the_package_is_in_one_tree_but_that_of_a_second_signal() -> None:
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    raised = {each for each in classes if issubclass(each, BaseException)}
    assert {each for each in raised if not issubclass(each, ResourceServerError)} == {Interrupted}
    assert not issubclass(Interrupted, Exception)  # no broad handler may keep the process alive
    with pytest.raises(ResourceNotFound):
        raise ResourceUnreadable


def test_clients_learn_no_more_of_a_mount_than_they_may() -> None:
    assert MountUnavailable("/srv/geheim").told == "temporarily unavailable"
    rule = RuleUnmatched("no table 'geheim'", option="tables")
    assert "geheim" not in rule.told
    assert not rule.is_temporary
    assert str(ProviderFailed(SystemExit("geheim"))) == "SystemExit"


def test_a_diagnostic_without_a_place_or_option_has_no_empty_parts() -> None:
    problems = [
        Diagnostic("m.yaml", 2, 0, "roots.a", "x"),
        Diagnostic("m.yaml", 0, 7, "roots.a", "y"),
        Diagnostic("m.yaml", 0, 0, "", "z"),
    ]
    found = ManifestError(iter(problems))  # pyright: ignore[reportArgumentType]
    assert str(found) == "m.yaml:2:0: roots.a: x\nm.yaml: roots.a: y\nm.yaml: z"
    assert found.diagnostics == tuple(problems)


def test_an_error_of_a_limit_says_what_would_help() -> None:
    told = str(DeadlineExceeded.of_option("limits.timeout", 1e-3, "ask for less"))
    assert told == (
        "time limit of 0.001 s exceeded; ask for less, or whoever runs the server can raise"
        " limits.timeout"
    )
    assert " 30 s exceeded; whoever" in str(DeadlineExceeded.of_option("x", 30.0))
    large = ResourceTooLarge(size=2**40, limit=0, next={"offset": "0"})
    assert "1099511627776 bytes, over the limit of 0" in str(large)
