"""Who is told when other tools or prompts are offered than before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from resource_server.access import Scopes, current

Offered: TypeAlias = Literal["tools", "prompts"]


class Follower(Protocol):
    """Who is told. May neither block nor raise."""

    def list_changed(self, of: Offered) -> None:
        """Take note that others of these are offered than before."""
        ...


class Announcements:
    """Those who follow what is offered, each with their scopes."""

    def __init__(self) -> None:
        self._followers: dict[Offered, dict[Follower, Scopes]] = {"tools": {}, "prompts": {}}

    def follow(self, of: Offered, follower: Follower) -> None:
        """Tell `follower` from now on."""
        self._followers[of][follower] = current().scopes

    def unfollow(self, follower: Follower) -> None:
        """Tell `follower` nothing more."""
        for followers in self._followers.values():
            followers.pop(follower, None)

    def tell(self, of: Offered, has_changed: Callable[[Scopes], bool]) -> None:
        """Tell those for whom something has changed, by their scopes."""
        for follower, scopes in list(self._followers[of].items()):
            if has_changed(scopes):
                follower.list_changed(of)
