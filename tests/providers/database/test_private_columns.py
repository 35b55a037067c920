"""Names of columns that tell of secrets, and what `check` says of them, on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from resource_server.providers.database.options import ColumnOptions, TableOptions
from resource_server.providers.database.private_columns import private_columns, yaml_name
from resource_server.providers.database.provider import Database
from tests.cases import for_each
from tests.providers.database.owners import Owner

SECRET = (
    "password Password PASSWORD_HASH passwordHash user_password encrypted_password pwd password2 "
    "api_key apiKey APIKey api-key stripe_api_key api_key_hash secret client_secret secrets token "
    "access_token refreshToken reset_password_token token_hash salt password_salt private_key "
    "ssn SSN customer_ssn iban bank_account_number card_number cardNumber credit_card cvv cvc2"
).split()
PERSONAL = (
    "email Email e_mail email_address emailAddress work_email phone phone_number phoneNumber "
    "mobile mobilePhone birth_date birthday date_of_birth dob passport_number"
).split()
NEITHER = (
    "tokens_used prompt_tokens total_tokens max_token password_changed_at has_password is_secret "
    "token_expires_at token_type token_id email_verified email_sent_at email_count phone_type "
    "card cardinality card_type discard_number secretary tokenizer passenger bypass key primary_key"
    " saltation basalt assn iban_valid mobile_app phonebook keyboard monkey id name"
).split()


def test_names_are_judged_by_their_last_words() -> None:
    found = private_columns([*SECRET, *PERSONAL, *NEITHER, "", "_", "пароль", "\udc80"])
    assert (found.secret, found.personal) == (tuple(SECRET), tuple(PERSONAL))


@for_each("name", ["password", "no", "a: b", "x]", "1", "\n", "{", "#"])
def test_a_name_is_read_back_from_yaml(name: str) -> None:
    assert yaml.safe_load(f"[{yaml_name(name)}]") == [name]


USERS = (
    "CREATE TABLE users (id int PRIMARY KEY, name varchar(9), email varchar(9),"
    " password_hash varchar(9), api_key varchar(9), tokens_used int)",
    "CREATE TABLE people (id int PRIMARY KEY, email varchar(9), password_changed_at varchar(9))",
    "CREATE TABLE sessions (token varchar(9) PRIMARY KEY, person int)",
    "CREATE VIEW logins AS SELECT name, password_hash FROM users",
)


async def told(url: str, tables: dict[str, Any]) -> list[str]:
    async with Database(url=url, tables=tables) as database:
        found = await database.warnings()
        # After each start it is not asked.
        assert not any("secret" in text for _, text in await database.warnings(thorough=False))
    assert all(not option for option, text in found if "secret" in text), "a warning, no mistake"
    return [text for _, text in found if "secret" in text]


@pytest.mark.anyio
async def test_check_names_served_columns_that_look_secret(owner: Owner) -> None:
    await owner.run(*USERS)
    logins, sessions, users = sorted(await told(owner.url, {}))
    assert users.startswith(
        "'users' serves columns whose names look secret, password_hash, api_key: write `tables: {"
    )
    assert "users: {columns: {hide: [password_hash, api_key], mask: {email: hash}}}}`" in users
    assert (
        "sessions: {expose: false}}`, as URIs of rows contain them; or `expose: true`" in sessions
    )
    assert "logins: {expose: false}}`, or hide them in the tables that it reads" in logins


@pytest.mark.anyio
async def test_the_advice_of_check_silences_it(owner: Owner) -> None:
    await owner.run(*USERS)
    tables: dict[str, Any] = {}
    for text in await told(owner.url, {}):
        tables |= yaml.safe_load(text.split("`")[1])["tables"]
    given = {name: msgspec.convert(each, TableOptions) for name, each in tables.items()}
    assert await told(owner.url, given) == []
    consent = {"*" + name.rpartition(".")[2]: TableOptions(expose=True) for name in tables}
    assert await told(owner.url, consent) == []


@pytest.mark.anyio
async def test_an_entry_that_covers_some_columns_is_told_of_the_others(owner: Owner) -> None:
    await owner.run(*USERS)
    masked = TableOptions(columns=ColumnOptions(mask={"PASSWORD_HASH": "redact"}))
    tables = {"*users": masked, "*sessions": False, "*logins": TableOptions(rows=False)}
    (text,) = await told(owner.url, tables)
    assert (
        "look secret, api_key: write `columns: {hide: [api_key], mask: {email: hash}}` into" in text
    )
    assert "into tables.*users; or" in text


@pytest.mark.anyio
async def test_check_names_columns_of_data_files(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("id,API Key,tokens_used\n1,s3cr3t-value,4\n")
    async with Database(url=f"files:{tmp_path}/users.csv") as database:
        found = [text for _, text in await database.warnings() if "secret" in text]
    (text,) = found
    assert 'hide: ["API Key"]' in text
    assert "s3cr3t-value" not in text
