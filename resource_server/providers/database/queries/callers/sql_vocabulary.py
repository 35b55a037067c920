"""Bare words that the SQL of callers may have: keywords, types and functions, by engine.

Names are quoted in that SQL, so each bare word is one of these. None of them reads the catalog,
files, settings or other sessions, writes, locks or sleeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from resource_server.providers.database.engines.contract import EngineName

_KEYWORDS: Final = """
all and any array as asc at between both by case collate cross cube current cycle desc distinct div
else end escape except exclude exists false fetch filter first following for from full group
grouping groups having ignore ilike in inner intersect is join last lateral leading left like limit
materialized natural next not null nulls of offset on only or order ordinality others outer over
overlaps partition preceding range recursive regexp respect right rlike rollup row rows select
separator sets similar some symmetric then ties to trailing true unbounded union unique unknown
using values when where window with within xor zone
"""
_BEFORE_PARENTHESES: Final = """
all and any as between both by case distinct div else except exists for from group having in
intersect interval join leading like limit mod not offset on or over regexp rlike row select some
then trailing union using values when where xor
"""
"""Keywords that stand before a parenthesis, where an engine takes none of them for a function."""
_TYPES: Final = """
bigint binary bit blob bool boolean bytea char character cidr date datetime decimal double float
inet int int2 int4 int8 integer interval json jsonb macaddr mediumint numeric precision real serial
signed smallint text time timestamp timestamptz timetz tinyint unsigned uuid varbinary varchar
varying without
"""
_SIZED: Final = """
binary bit char character datetime decimal float interval numeric time timestamp timestamptz timetz
varbinary varchar varying
"""
"""Types that have a size."""
_UNITS: Final = """
century day days decade dow doy epoch hour hours isodow isoyear microsecond microseconds millennium
millisecond milliseconds minute minutes month months quarter second seconds week weeks year years
"""
_LIKE_FUNCTIONS: Final = "all any row some"
_NOW: Final = "current_date current_time current_timestamp localtime localtimestamp"
_COMMON: Final = """
abs acos asin atan atan2 avg cast ceil ceiling char_length character_length coalesce concat
concat_ws cos cot count cume_dist date degrees dense_rank exp extract first_value floor greatest lag
last_value lead least left length ln log log10 lower lpad ltrim max md5 min mod now nth_value ntile
nullif octet_length percent_rank pi position pow power radians rank replace reverse right round
row_number rpad rtrim sign sin sqrt stddev stddev_pop stddev_samp substr substring sum tan trim
upper var_pop var_samp variance
"""
_POSTGRESQL: Final = """
age any_value array array_agg array_append array_cat array_dims array_length array_lower array_ndims
array_position array_positions array_prepend array_remove array_replace array_to_json
array_to_string array_upper ascii bit_and bit_length bit_or bit_xor bool_and bool_or btrim
cardinality cbrt ceiling chr corr cosh covar_pop covar_samp date_bin date_part date_trunc daterange
decode div encode every factorial gcd generate_series grouping initcap int4range int8range isempty
isfinite json_agg json_array_elements json_array_elements_text json_array_length json_build_array
json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object
json_object_agg json_object_keys json_strip_nulls json_typeof jsonb_agg jsonb_array_elements
jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each
jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object
jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_match jsonb_path_query
jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls
jsonb_typeof justify_days justify_hours justify_interval lcm lower_inc lower_inf make_date
make_interval make_time make_timestamp make_timestamptz min_scale mode num_nonnulls num_nulls
numrange overlay percentile_cont percentile_disc phraseto_tsquery plainto_tsquery quote_ident
quote_literal range_agg regexp_count regexp_instr regexp_like regexp_match regexp_matches
regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr regr_avgx regr_avgy
regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_to_json scale sha224
sha256 sha384 sha512 sinh split_part starts_with statement_timestamp string_agg string_to_array
string_to_table strpos substring tanh timezone to_char to_date to_hex to_json to_jsonb to_number
to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim_scale trunc ts_headline
ts_rank ts_rank_cd tsrange tstzrange unnest upper_inc upper_inf websearch_to_tsquery width_bucket
"""
_MYSQL_KEYWORDS: Final = """
boolean day_hour day_microsecond day_minute day_second expansion hour_microsecond hour_minute
hour_second language minute_microsecond minute_second mode natural query second_microsecond set
utf8mb4 utf8mb4_bin utf8mb4_general_ci utf8mb4_unicode_ci year_month
"""
_MYSQL: Final = """
adddate addtime against ascii bin bit_and bit_count bit_length bit_or bit_xor char conv convert
crc32 curdate curtime date_add date_format date_sub datediff day dayname dayofmonth dayofweek
dayofyear elt export_set field find_in_set format from_base64 from_days from_unixtime group_concat
hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr isnull json_array
json_array_append json_array_insert json_arrayagg json_contains json_contains_path json_depth
json_extract json_insert json_keys json_length json_merge_patch json_merge_preserve json_object
json_objectagg json_overlaps json_quote json_remove json_replace json_search json_set json_type
json_unquote json_valid json_value last_day lcase locate log2 make_set makedate maketime match mid
monthname oct ord period_add period_diff quote rand regexp_instr regexp_replace regexp_substr
sec_to_time sha sha1 sha2 soundex std str_to_date strcmp subdate substring_index subtime sysdate
time_format time_to_sec timediff timestampadd timestampdiff to_base64 to_days to_seconds truncate
ucase unhex unix_timestamp utc_date utc_time utc_timestamp weekday weekofyear yearweek
"""
_MYSQL_ONLY: Final = """
any_value grouping json_pretty regexp_like
"""
_MARIADB_ONLY: Final = """
json_compact json_detailed json_equals json_exists json_loose json_normalize json_query median nvl
nvl2 percentile_cont percentile_disc to_char
"""
_MYSQL_PARTS: Final = "day hour microsecond minute month quarter second time timestamp week year"
_OWN_KEYWORDS: Final[Mapping[EngineName, str]] = {
    "postgresql": "placing bpchar int4range int8range numrange daterange tsrange tstzrange",
    "mysql": _MYSQL_KEYWORDS,
    "mariadb": _MYSQL_KEYWORDS,
}
_OWN_BEFORE_PARENTHESES: Final[Mapping[EngineName, str]] = {
    "postgresql": """
        array cube escape filter lateral materialized overlaps rollup sets similar symmetric to zone
    """,
    "mysql": "against lateral rollup",
    "mariadb": "against",
}
_OWN_FUNCTIONS: Final[Mapping[EngineName, str]] = {
    "postgresql": _POSTGRESQL,
    "mysql": f"{_MYSQL} {_MYSQL_ONLY} {_MYSQL_PARTS}",
    "mariadb": f"{_MYSQL} {_MARIADB_ONLY} {_MYSQL_PARTS}",
}

FUNCTIONS: Final[Mapping[EngineName, frozenset[str]]] = {
    engine: frozenset(f"{_COMMON} {own} {_NOW} {_LIKE_FUNCTIONS}".split())
    for engine, own in _OWN_FUNCTIONS.items()
}
"""Names of functions in lower case, all of them built in."""
CALLED: Final[Mapping[EngineName, frozenset[str]]] = {
    engine: functions
    | frozenset(" ".join((_BEFORE_PARENTHESES, _SIZED, _OWN_BEFORE_PARENTHESES[engine])).split())
    for engine, functions in FUNCTIONS.items()
}
"""Words that may stand before a parenthesis; no engine takes one for another's function."""
WORDS: Final[Mapping[EngineName, frozenset[str]]] = {
    engine: frozenset(" ".join((_KEYWORDS, _TYPES, _UNITS, _NOW, own)).split())
    for engine, own in _OWN_KEYWORDS.items()
}
"""Words that may stand elsewhere."""
COLLATIONS: Final[Mapping[EngineName, frozenset[str]]] = {
    "postgresql": frozenset(("C", "POSIX", "default", "ucs_basic", "unicode")),
    "mysql": frozenset(("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci")),
    "mariadb": frozenset(("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci")),
}
"""Collations that reveal nothing about the server or its owner's objects."""
VOCABULARY: Final[Mapping[EngineName, frozenset[str]]] = {
    engine: words | CALLED[engine] for engine, words in WORDS.items()
}
"""All words in lower case."""
