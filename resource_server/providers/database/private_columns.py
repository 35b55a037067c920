"""Columns whose names tell of secrets or personal data, and the options that hide and mask them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_FORMS = frozenset(
    "hash hashed digest sha1 sha256 md5 bcrypt encrypted enc cipher ciphertext plain plaintext text"
    " value string str raw".split()
)
"""Words after a secret that name its form, as in `password_hash`."""
_STATES = frozenset("is has had can must needs requires num n max min count total no".split())
"""First words of flags and counts, as in `has_password`."""
_SECRETS = re.compile(
    r"(?:^| )(?:password|passwd|passwort|pwd|passphrase|passcode|pass (?:word|phrase|code)"
    r"|secrets?|token|salt|credentials?|(?:api|private|secret|access|encryption|signing|master|ssh"
    r"|pgp|gpg|recovery) ?key|apikeys|totp|otp|recovery codes?"
    r"|backup codes?|ssn|social security(?: number| no)?|iban|cvv2?|cvc2?"
    r"|(?:credit |debit |payment |bank )card"
    r"|(?:card|cc|creditcard|bank account) ?(?:number|num|no|nr)|cardnumber|creditcard)$"
)
_PERSONAL = re.compile(
    r"(?:^| )(?:e ?mail|(?:e ?mail|phone|mobile|telephone) ?(?:address|number|no|nr)"
    r"|(?:cell|tele|mobile)? ?phone|mobile|birth ?(?:date|day)|(?:date of birth|dob)"
    r"|(?:passport|national id|tax|driving licen[cs]e|driver licen[cs]e) ?(?:number|no|nr|id))$"
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_YAML_WORDS = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE)


class PrivateColumns(NamedTuple):
    """Columns judged by their names alone; no value is read."""

    secret: tuple[str, ...]
    personal: tuple[str, ...]

    @property
    def hide(self) -> str:
        """The option that hides the secrets, in YAML."""
        # Values may name variables of the environment, keys may not.
        return f"hide: [{', '.join(yaml_name(s.replace('${', '$${')) for s in self.secret)}]"

    @property
    def mask(self) -> str:
        """The option that masks the personal data, in YAML."""
        return f"mask: {{{', '.join(f'{yaml_name(name)}: hash' for name in self.personal)}}}"


def private_columns(names: Iterable[str]) -> PrivateColumns:
    """Return which of the names look private, in order.

    The last words of a name say what it is, so `password_hash` and `apiKey` are secrets, but
    `password_changed_at`, `tokens_used` and `has_password` are not.
    """
    secret, personal = list[str](), list[str]()
    for name in names:
        words = [word.lower() for word in _WORDS.findall(name)]
        if not words or words[0] in _STATES:
            continue
        while len(words) > 1 and (words[-1] in _FORMS or words[-1].isdigit()):
            words.pop()
        text = " ".join(words)
        if _SECRETS.search(text):
            secret.append(name)
        elif _PERSONAL.search(text):
            personal.append(name)
    return PrivateColumns(tuple(secret), tuple(personal))


def yaml_name(text: str) -> str:
    """Return a name as YAML, quoted if it needs to be."""
    return text if _PLAIN.fullmatch(text) and not _YAML_WORDS.fullmatch(text) else yaml_text(text)


def yaml_text(text: str) -> str:
    """Return a text as quoted YAML: a JSON string, with unprintable characters as YAML has them."""
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False)
    )
