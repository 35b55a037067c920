"""Bare words that the SQL of callers may have: keywords, types and functions, by engine.

Names are quoted in that SQL, so each bare word is one of these. None of them reads the catalog,
files, settings or other sessions, writes, locks or sleeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from resource_server.providers.database.engines.contract import EngineName

_KEYWORDS: Final = """
all and any array as asc at between both by case collate cross current cycle desc distinct div else
end escape except exclude exists false fetch filter first following for from full group grouping
groups having ilike in inner intersect is join last lateral leading left like limit materialized
natural next not null nulls of offset on only or order ordinality others outer over partition
preceding range recursive regexp respect ignore right rlike rollup row rows select separator sets
similar some symmetric then ties to trailing true unbounded union unique using values when where
window with within xor zone cube unknown
"""
_TYPES: Final = """
bigint binary bit blob bool boolean bytea char character cidr date datetime decimal double float
inet int int2 int4 int8 integer interval json jsonb macaddr mediumint numeric precision real serial
signed smallint text time timestamp timestamptz timetz tinyint unsigned uuid varbinary varchar
varying without
"""
_UNITS: Final = """
century day days decade dow doy epoch hour hours isodow isoyear microsecond microseconds millennium
millisecond milliseconds minute minutes month months quarter second seconds week weeks year years
"""
_COMMON: Final = """
abs acos asin atan atan2 avg cast ceil ceiling char_length character_length coalesce concat
concat_ws cos cot count cume_dist current_date current_time current_timestamp date degrees
dense_rank exp extract first_value floor greatest lag last_value lead least left length ln localtime
localtimestamp log log10 lower lpad ltrim max md5 min mod now nth_value ntile nullif octet_length
percent_rank pi position pow power radians rank replace reverse right round row_number rpad rtrim
sign sin sqrt stddev stddev_pop stddev_samp substr substring sum tan trim upper var_pop var_samp
variance
"""
_POSTGRESQL: Final = """
age array_agg array_length array_position array_remove array_to_string ascii bit_and bit_or bit_xor
bool_and bool_or btrim cardinality cbrt chr corr cosh covar_pop covar_samp date_bin date_part
date_trunc decode div encode erf every factorial gcd generate_series initcap isfinite json_agg
json_array_elements json_array_elements_text json_array_length json_build_array json_build_object
json_each json_each_text json_extract_path json_extract_path_text json_object_agg json_object_keys
json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length
jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path
jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_query
jsonb_path_query_array jsonb_path_query_first jsonb_strip_nulls jsonb_typeof justify_days
justify_hours justify_interval lcm lower_inc make_date make_interval make_time make_timestamp
make_timestamptz min_scale mode num_nonnulls num_nulls overlay percentile_cont percentile_disc
phraseto_tsquery placing plainto_tsquery regexp_count regexp_instr regexp_like regexp_match
regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr regr_avgx
regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_to_json scale
sha224 sha256 sha384 sha512 sinh split_part starts_with string_agg string_to_array string_to_table
strpos tanh timezone to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery
to_tsvector translate trim_scale trunc ts_headline ts_rank unnest upper_inc websearch_to_tsquery
width_bucket
"""
_MYSQL: Final = """
adddate addtime against any_value ascii bin bit_and bit_count bit_length bit_or bit_xor boolean char
conv convert crc32 curdate curtime date_add date_format date_sub datediff day dayname dayofmonth
dayofweek dayofyear elt export_set field find_in_set format from_base64 from_days from_unixtime
group_concat hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr isnull
json_array json_array_append json_array_insert json_arrayagg json_compact json_contains
json_contains_path json_depth json_detailed json_equals json_exists json_extract json_insert
json_keys json_length json_loose json_merge_patch json_merge_preserve json_normalize json_object
json_objectagg json_overlaps json_pretty json_query json_quote json_remove json_replace json_search
json_set json_type json_unquote json_valid json_value last_day lcase locate log2 make_set
makedate maketime match median mid mode monthname natural nvl nvl2 oct ord percentile_cont
percentile_disc period_add period_diff rand regexp_instr regexp_like regexp_replace regexp_substr
sec_to_time sha sha1 sha2 soundex std str_to_date strcmp subdate substring_index subtime sysdate
time_format time_to_sec timediff timestampadd timestampdiff to_base64 to_char to_days to_seconds
truncate ucase unhex unix_timestamp utc_date utc_time utc_timestamp weekday weekofyear weight_string
yearweek expansion language query mode day_hour day_minute day_second hour_minute hour_second
minute_second year_month utf8mb4_bin utf8mb4_general_ci utf8mb4_unicode_ci
"""
_DUCKDB: Final = """
age any_value approx_count_distinct approx_quantile arg_max arg_min argmax argmin array_agg
array_contains array_length array_slice array_to_string ascii asof anti semi bar base64 bin
bit_and bit_count bit_length bit_or bit_xor bool_and bool_or cbrt chr columns contains corr
covar_pop covar_samp damerau_levenshtein date_diff date_part date_sub date_trunc datediff datepart
datesub datetrunc day dayname dayofmonth dayofweek dayofyear decode encode ends_with entropy epoch
epoch_ms even factorial favg first flatten format fsum gcd generate_series group_concat hamming hash
hex histogram hour hugeint ilike_escape instr isfinite isinf isnan isodow jaccard
jaro_similarity jaro_winkler_similarity json_array json_array_length json_contains
json_extract json_extract_string json_group_array json_group_object json_keys json_object
json_quote json_type json_valid kurtosis last last_day lcm len levenshtein list list_aggr
list_aggregate
list_concat list_contains list_distinct list_element list_extract list_filter list_has list_max
list_min list_position list_reduce list_reverse list_sort list_sum list_transform list_unique
list_value listagg log2 mad make_date make_time make_timestamp map map_extract map_keys map_values
max_by
median mid min_by minute mismatches mode month monthname nextafter parse_path percentile_cont
percentile_disc positional prefix printf product qualify quantile quantile_cont quantile_disc
quarter range regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
regexp_split_to_array regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
regr_sxy regr_syy rename repeat_row row_to_json second sha256 skewness split split_part
starts_with str_split string_agg string_split string_split_regex strftime strip_accents strlen
strpos strptime struct struct_extract struct_pack suffix time_bucket timezone to_base64 to_days
to_hours to_json to_minutes to_months to_seconds to_timestamp to_years translate trunc try_cast
try_strptime typeof ubigint uhugeint uinteger unbin unhex unicode unnest usmallint utinyint week
weekday weekofyear year yearweek
"""

_EVERY: Final = _KEYWORDS + _TYPES + _UNITS + _COMMON
_CALLED: Final = frozenset(("uuid",))
"""Types that are no harmless functions: MariaDB's tells the network address of the server."""

VOCABULARY: Final[Mapping[EngineName, frozenset[str]]] = {
    "postgresql": frozenset((_EVERY + _POSTGRESQL).split()),
    "mysql": frozenset((_EVERY + _MYSQL).split()) - _CALLED,
    "mariadb": frozenset((_EVERY + _MYSQL).split()) - _CALLED,
    "duckdb": frozenset((_EVERY + _DUCKDB).split()),
}
"""Words in lower case."""
