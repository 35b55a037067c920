"""Callers of other programs: no two people are one caller, and nobody is let in by mistake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials, SimpleUser, UnauthenticatedUser

from resource_server.access import Caller
from resource_server.embedding.callers import caller_of_scope, caller_of_token, named
from tests.cases import for_each


def token(**more: Any) -> AccessToken:
    return AccessToken(token="t", client_id="app", scopes=["a"], expires_at=7, **more)  # noqa: S106


def test_a_token_names_its_subject_at_its_issuer_or_its_client() -> None:
    found = {
        caller_of_token(each).subject
        for each in (
            token(),
            token(subject="app"),
            token(subject="ada"),
            token(subject="ada", claims={"iss": "https://one.example"}),
            token(subject="ada", claims={"iss": "https://two.example"}),
        )
    }
    assert len(found) == 5
    caller = caller_of_token(token(subject="ada", claims={"iss": "https://one.example"}))
    claims = {"sub": "ada", "iss": "https://one.example"}
    assert caller == Caller("https://one.example#ada", frozenset("a"), 7, claims)


def test_a_user_of_the_sdk_is_the_subject_of_the_token_not_its_client() -> None:
    users = [AuthenticatedUser(token(subject=name)) for name in ("ada", "alan")]
    assert [caller_of_scope({"user": each}) for each in users] == [
        caller_of_token(token(subject=name)) for name in ("ada", "alan")
    ]


@dataclass
class User:
    is_authenticated: bool = True
    display_name: Any = ""
    identity: Any = None
    claims: Any = None


def test_a_named_caller_without_scopes_has_none_and_its_name_as_its_subject() -> None:
    assert named(Caller("ada")) == Caller("ada", frozenset(), None, {"sub": "ada"})
    assert named(Caller("ada", claims={"sub": 7})).claims == {"sub": 7}
    assert named(Caller()) == Caller()


@for_each(
    "scope",
    [
        {},
        {"user": None},
        {"user": "ada"},
        {"user": UnauthenticatedUser()},
        {"user": SimpleUser("")},
        {"user": User()},
        {"user": User(display_name=7)},
        {"user": User(is_authenticated=False, display_name="ada")},
    ],
)
def test_a_user_without_a_name_or_authentication_is_nobody(scope: dict[str, Any]) -> None:
    assert caller_of_scope(scope) is None


def test_a_user_has_the_scopes_of_the_credentials_and_its_claims() -> None:
    user = User(display_name="Ada", identity="ada", claims={"org": {"id": 7}})
    scope = {"user": user, "auth": AuthCredentials(["a", "b"])}
    claims = {"sub": "ada", "org": {"id": 7}}
    assert caller_of_scope(scope) == Caller("ada", frozenset("ab"), None, claims)
    assert caller_of_scope({"user": SimpleUser("ada")}) == Caller(
        "ada", frozenset(), None, {"sub": "ada"}
    )
