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
yearweek expansion language query mode
"""
_DUCKDB: Final = """
acosh age anti any_value approx_count_distinct approx_quantile arg_max arg_min argmax argmin
array_agg array_append array_concat array_contains array_distinct array_filter array_has
array_has_all array_has_any array_intersect array_length array_position array_prepend
array_reverse_sort array_slice array_sort array_to_string array_transform array_unique ascii asinh
asof atanh bar base64 bin bit_and bit_count bit_length bit_or bit_position bit_xor bitstring
bool_and bool_or cardinality cbrt chr columns contains corr cosh count_if countif covar_pop
covar_samp damerau_levenshtein date_diff date_part date_sub date_trunc datediff datepart datesub
datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decode element_at encode
ends_with entropy enum enum_code enum_first enum_last enum_range epoch epoch_ms epoch_ns epoch_us
even factorial favg fdiv first flatten fmod format format_bytes from_base64 from_hex fsum gamma gcd
generate_series geomean geometric_mean get_bit group_concat hamming hash hex histogram hour hugeint
if ilike_escape instr int128 into isfinite isinf isnan isodow jaccard jaro_similarity
jaro_winkler_similarity json_array json_array_length json_contains json_each json_exists
json_extract json_extract_path json_extract_path_text json_extract_string json_group_array
json_group_object json_keys json_merge_patch json_object json_quote json_strip_nulls json_structure
json_transform json_tree json_type json_valid json_value julian kahan_sum key kurtosis kurtosis_pop
lambda last last_day lcase lcm left_grapheme len length_grapheme levenshtein lgamma list list_aggr
list_aggregate list_any_value list_append list_avg list_concat list_contains list_count
list_distinct list_element list_extract list_filter list_first list_has list_has_all list_has_any
list_histogram list_indexof list_intersect list_last list_max list_median list_min list_mode
list_position list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort
list_select list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum
list_transform list_unique list_value list_var_pop list_var_samp list_where list_zip listagg log2
mad make_date make_time make_timestamp make_timestamp_ms make_timestamptz map map_concat
map_contains map_entries map_extract map_from_entries map_keys map_values max_by mean median mid
min_by minute mismatches mode month monthname name nextafter noaccent nocase ord overlay parse_path
percentile_cont percentile_disc pivot positional prefix printf product qualify quantile
quantile_cont quantile_disc quarter range regexp_escape regexp_extract regexp_extract_all
regexp_full_match regexp_matches regexp_replace regexp_split_to_array regr_avgx regr_avgy regr_count
regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy rename repeat repeat_row right_grapheme
round_even row_to_json second sem semi set_bit sha1 sha256 signbit sinh skewness split split_part
starts_with str_split str_split_regex strftime string_agg string_split string_split_regex
string_to_array strip_accents strlen strpos strptime struct struct_concat struct_extract
struct_insert struct_keys struct_pack struct_values substring_grapheme suffix tanh time_bucket
timezone to_base64 to_binary to_centuries to_days to_decades to_hex to_hours to_json to_microseconds
to_milliseconds to_minutes to_months to_seconds to_timestamp to_weeks to_years today translate trunc
try_cast try_strptime typeof ubigint ucase uhugeint uinteger unbin unhex unicode union_extract
union_tag union_value unnest unpivot url_decode url_encode usmallint utinyint value wavg week
weekday weekofyear weighted_avg year yearweek
"""

VOCABULARY: Final[Mapping[EngineName, frozenset[str]]] = {
    engine: frozenset((_KEYWORDS + _TYPES + _UNITS + _COMMON + own).split())
    for engine, own in (
        ("postgresql", _POSTGRESQL),
        ("mysql", _MYSQL),
        ("mariadb", _MYSQL),
        ("duckdb", _DUCKDB),
    )
}
"""Words in lower case."""
