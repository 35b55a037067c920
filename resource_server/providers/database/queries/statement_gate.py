"""What callers' SQL may name on a database server, beside what its login may read.

The login decides which data a statement reaches. But any login of PostgreSQL may read the catalog,
whose names and definitions the policy hides, and functions reach settings, locks and other
sessions. So names of the catalog and functions that are not listed here do not exist for callers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from resource_server.providers.database.engines.contract import EngineName, RefusedStatement
from resource_server.providers.database.queries.sql_tokenizer import SqlToken

OWN: Final = "~"
"""Start of the names of our own tables beside the policy's views; callers cannot name them."""

_COMMON = """
abs acos asin atan atan2 avg cast ceil ceiling char_length character_length coalesce concat
concat_ws convert cos cot count cume_dist current_date current_time current_timestamp date degrees
dense_rank exp extract first_value floor greatest lag last_value lead least left length ln localtime
localtimestamp log log10 lower ltrim max md5 min mod now nth_value ntile nullif octet_length
percent_rank pi position pow power radians rank replace reverse right round row_number rtrim sign
sin sqrt stddev stddev_pop stddev_samp substr substring sum tan trim upper var_pop var_samp variance
"""
_POSTGRESQL = """
age array_agg array_length array_position array_remove array_to_string ascii bit_and bit_or bit_xor
bool_and bool_or btrim cardinality cbrt chr corr cosh covar_pop covar_samp date_bin date_part
date_trunc decode div encode erf every factorial gcd generate_series initcap isfinite json_agg
json_array_elements json_array_elements_text json_array_length json_build_array json_build_object
json_each json_each_text json_extract_path json_extract_path_text json_object_agg json_object_keys
json_to_record json_to_recordset json_typeof jsonb_agg jsonb_array_elements
jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each
jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_object_agg jsonb_object_keys
jsonb_path_exists jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_strip_nulls
jsonb_to_record jsonb_to_recordset jsonb_typeof justify_days justify_hours justify_interval lcm
lower_inc make_date make_interval make_time make_timestamp make_timestamptz min_scale mode
num_nonnulls num_nulls overlay percentile_cont percentile_disc phraseto_tsquery plainto_tsquery
regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace
regexp_split_to_array regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count
regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_to_json scale sha224 sha256 sha384
sha512 sinh split_part starts_with string_agg string_to_array string_to_table strpos tanh timezone
to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector translate
trim_scale trunc ts_headline ts_rank unnest upper_inc websearch_to_tsquery width_bucket
"""
_MYSQL = """
adddate addtime against any_value ascii bin bit_and bit_count bit_length bit_or bit_xor char conv
crc32 curdate curtime date_add date_format date_sub datediff day dayname dayofmonth dayofweek
dayofyear elt export_set field find_in_set format from_base64 from_days from_unixtime get_format
group_concat hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr isnull
json_array json_array_append json_array_insert json_arrayagg json_compact json_contains
json_contains_path json_depth json_detailed json_equals json_exists json_extract json_insert
json_keys json_length json_loose json_merge_patch json_merge_preserve json_normalize json_object
json_objectagg json_overlaps json_pretty json_query json_quote json_remove json_replace json_search
json_set json_table json_type json_unquote json_valid json_value last_day lcase locate log2 make_set
makedate maketime match median microsecond mid minute month monthname nvl nvl2 oct ord
percentile_cont percentile_disc period_add period_diff quarter quote rand regexp_instr regexp_like
regexp_replace regexp_substr sec_to_time second sha sha1 sha2 soundex std str_to_date strcmp subdate
substring_index subtime sysdate time time_format time_to_sec timediff timestamp timestampadd
timestampdiff to_base64 to_char to_days to_seconds truncate ucase unhex unix_timestamp utc_date
utc_time utc_timestamp values week weekday weekofyear weight_string year yearweek
"""
_KEYWORDS = frozenset(
    """
    all and any array as at between binary bit by case char character collate columns cross cube
    cycle datetime decimal distinct div double else end escape except exists fetch filter first
    float following from full group grouping having ilike in inner integer intersect interval is
    join lateral left like limit materialized mod natural nchar nested next not notnull nullif
    numeric of offset on only or order outer over partition path preceding precision range recursive
    regexp return returns right rlike rollup row rows select separator sets signed similar some
    symmetric table then ties time timestamp timestamptz to unbounded union unsigned using values
    varchar varying when where window with within xor zone
    """.split()
)
"""Words before a parenthesis that call no function: keywords and types."""
_FUNCTIONS: Mapping[EngineName, frozenset[str]] = {
    "postgresql": frozenset((_COMMON + _POSTGRESQL).split()) | _KEYWORDS,
    "mysql": frozenset((_COMMON + _MYSQL).split()) | _KEYWORDS,
    "mariadb": frozenset((_COMMON + _MYSQL).split()) | _KEYWORDS,
}
_MYSQL_REFUSED = frozenset("current_role current_user into procedure system_time".split())
_REFUSED_WORDS: Mapping[EngineName, frozenset[str]] = {
    "postgresql": frozenset(
        """
        current_catalog current_role current_schema current_user into session_user system_user
        tablesample user
        """.split()
    ),
    "mysql": _MYSQL_REFUSED,
    "mariadb": _MYSQL_REFUSED,
}
"""Words that tell of the session, write, or read other versions of rows."""
_CATALOGS = frozenset(("information_schema", "mysql", "performance_schema", "sys"))
_BEGINS_QUERY = frozenset(("select", "with", "values", "table", "("))


def check_names(tokens: Sequence[SqlToken], engine: EngineName) -> None:
    """Check what a statement names; engines that are no servers confine it themselves.

    Raises:
        RefusedStatement: it names the catalog, a function that is not allowed, a variable, or
            a lock.
    """
    functions = _FUNCTIONS.get(engine)
    if functions is None:
        return
    solid = [token for token in tokens if token.kind != "space"]
    for place, token in enumerate(solid):
        name = None if token.identifier is None else token.identifier.casefold()
        before = solid[place - 1].text.lower() if place else ""
        after = solid[place + 1].text.lower() if place + 1 < len(solid) else ""
        if name is None:
            if token.text == "@" and engine != "postgresql":
                raise RefusedStatement("variables are not available")
            continue
        if _is_internal(name, before, after, engine):
            if after == "(":
                raise RefusedStatement(f"no such function: {name}")
            raise RefusedStatement(f"no such table: {name}", table=name)
        if token.kind == "word" and before != "." and after != ".":
            _check_word(name, after, engine)
        if after == "(" and not _is_definition(solid, place, before):
            word = token.kind == "word" and before != "."
            if not (word and name in functions):
                raise RefusedStatement(f"no such function: {name}")


def _is_internal(name: str, before: str, after: str, engine: EngineName) -> bool:
    if name.startswith(OWN):
        return True
    if engine == "postgresql":
        # Casts to the types `reg…` look names up in the catalog.
        is_type = name.startswith("reg") and not name.startswith(("regexp_", "regr_", "regi"))
        return name.startswith(("pg_", "_pg_")) or name == "information_schema" or is_type
    return name in _CATALOGS and after == "." and before != "."


def _check_word(name: str, after: str, engine: EngineName) -> None:
    if name in _REFUSED_WORDS[engine]:
        raise RefusedStatement(f"{name} is not available")
    if (name, after) in (("for", "update"), ("for", "share"), ("for", "no"), ("for", "key")):
        raise RefusedStatement("locks are not available")
    if (name, after) == ("lock", "in"):
        raise RefusedStatement("locks are not available")
    if (name, after) in (("next", "value"), ("previous", "value")):
        raise RefusedStatement("sequences are not available")


def _is_definition(solid: Sequence[SqlToken], place: int, before: str) -> bool:
    """Return whether columns of a name follow in parentheses: `WITH w (a) AS (…`, `AS t (a)`."""
    if before == "as":
        return True
    if before == ")":
        opened = _partner(solid, place - 1, -1)
        return opened > 0 and solid[opened - 1].text.lower() != "on"  # DISTINCT ON (…) f (…)
    if before not in ("with", "recursive", ","):
        return False
    rest = [token.text.lower() for token in solid[_partner(solid, place + 1, 1) + 1 :][:6]]
    following = [word for word in rest if word not in ("not", "materialized")]
    return following[:2] == ["as", "("] and following[2:3] != [] and following[2] in _BEGINS_QUERY


def _partner(solid: Sequence[SqlToken], place: int, step: int) -> int:
    """Return the place of the parenthesis that belongs to the one at `place`."""
    depth = 0
    while 0 <= place < len(solid):
        depth += (solid[place].kind == "open") - (solid[place].kind == "close")
        if depth == 0:
            return place
        place += step
    return place
