"""SELECTs of the tables `orders`, `customers` and `events`: written ones, and generated ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

TABLES: Final = (
    "create table orders (id integer primary key, customer integer, total decimal(10, 2),"
    " status varchar, placed date, card varchar, mail varchar)",
    "insert into orders select i, i % 5, (i * 37) % 101 / 4,"
    " ['sent', 'paid', 'draft', null][1 + i % 4], date '2024-01-01' + (i % 60)::integer,"
    " 'card ' || i, 'mail' || i % 7 || '@x' from range(80) r(i)",
    "create table customers (id integer, name varchar, tags varchar[],"
    " place struct(city varchar, zip integer))",
    "insert into customers select i, 'Name ' || i, ['a', 'b' || i],"
    " {'city': 'C' || i % 3, 'zip': i} from range(5) r(i)",
    "create table events (seen timestamp, kind varchar, value double, ok boolean)",
    "insert into events select timestamp '2024-03-01' + to_minutes((i * 7)::integer), 'k' || i % 4,"
    " case when i % 9 = 0 then null else i / 8 end, i % 3 = 0 from range(60) r(i)",
)
VIEWS: Final = (
    "create view orders as select id, customer, total, status, placed,"
    " case when mail is not null then '***' end as mail from source.main.orders"
    " where status <> 'draft' or status is null",
    "create view customers as select * from source.main.customers",
    "create view events as select * from source.main.events",
)
"""What the policy of the tests shows of an attached database `source`, in DuckDB's own SQL."""


def written() -> Sequence[str]:
    """Return statements of every kind that callers may send; where it matters, with an order."""
    return [" ".join(each.split("\n")) for each in _WRITTEN.strip().split(";\n")]


def generated(seed: int, count: int) -> Iterator[str]:
    """Yield statements whose rows have one order or none; each is unlike the one before."""
    dice = random.Random(seed)  # noqa: S311
    for _ in range(count):
        yield _Generator(dice).select()


class _Generator:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def _one(self, *choices: str) -> str:
        return self._dice.choice(choices)

    def select(self) -> str:
        """Return a statement, ordered by all of its columns."""
        kind = self._dice.randrange(6)
        match kind:
            case 0:
                body = f"select {self._value()} as a, {self._text()} as b from {self._joined()}"
                body += self._where()
            case 1:
                key, other = self._text(), self._value()
                body = f"select {key} as a, {other} as b, {self._aggregate()} as c,"
                body += f" {self._aggregate()} as d from {self._joined()}{self._where()}"
                body += " group by all" + self._one("", f" having {self._aggregate()} is not null")
            case 2:
                body = f"select o.id as a, {self._window()} as b, {self._window()} as c"
                body += f" from orders o{self._where()}"
                body += self._one("", f" qualify {self._window()} > 2")
            case 3:
                sides = [f"select {self._value()} as a from orders o{self._where()}" for _ in "ab"]
                body = self._one("union", "union all", "except", "intersect").join(
                    f" ({side}) " for side in sides
                )
            case 4:
                body = f"with x as (select o.*, {self._value()} as v from orders o{self._where()})"
                body += f" select v as a, {self._one('count(*)', 'sum(id)', 'min(placed)')} as b"
                body += " from x group by all"
            case _:
                body = f"select c.name as a, (select {self._aggregate()} from orders o"
                body += f" where o.customer = c.id and {self._condition()}) as b from customers c"
        return f"select * from ({body}) order by all limit {self._dice.choice((3, 20, 500))}"

    def _joined(self) -> str:
        return self._one(
            "orders o",
            "orders o join customers c on o.customer = c.id",
            "orders o left join customers c on o.customer = c.id and c.id > 2",
            "(select * from orders where id > 10) o",
            "orders o semi join customers c on c.id = o.customer",
        )

    def _where(self) -> str:
        one, joined, other = self._condition(), self._one("and", "or"), self._condition()
        return self._one("", f" where {one}", f" where {one} {joined} {other}")

    def _condition(self) -> str:
        return self._one(
            f"{self._value()} > {self._dice.randrange(30)}",
            f"{self._value()} between 3 and {self._dice.randrange(60)}",
            f"{self._text()} like '{self._one('s%', '%a%', '***', '_e%')}'",
            f"{self._text()} in ('sent', '***', 'x')",
            "o.status is null",
            "not (o.total < 5)",
            "o.placed >= date '2024-01-20'",
            "exists (select 1 from events e where e.value > o.total)",
            "o.customer in (select id from customers where name > 'Name 1')",
            f"case when o.id % 3 = 0 then {self._value()} > 4 else false end",
        )

    def _value(self) -> str:
        return self._one(
            "o.id",
            "o.total",
            "o.customer * 2",
            "o.total / 3",
            "o.id // 7",
            "o.id % 4 - 1",
            "round(o.total, 1)",
            "length(o.status)",
            "coalesce(o.total, 0) + o.id",
            "year(o.placed) + month(o.placed)",
            "date_diff('day', date '2024-01-01', o.placed)",
            "greatest(o.id, o.customer)",
            "cast(o.total as integer)",
            "list_sum([o.id, o.customer])",
            "(o.id & 5) | 8",
            "if(o.status = 'sent', 1, 0)",
        )

    def _text(self) -> str:
        return self._one(
            "o.status",
            "o.mail",
            "upper(o.status)",
            "o.status || '-' || o.mail",
            "strftime(o.placed, '%Y-%m')",
            "coalesce(o.status, 'none')",
            "o.mail[1:2]",
            "regexp_replace(o.status, '[aeiou]', '_')",
            "cast(o.total as varchar)",
            "case o.status when 'sent' then 's' when 'paid' then 'p' else o.mail end",
            "string_split(o.status, 'a')[1]",
        )

    def _aggregate(self) -> str:
        return self._one(
            "count(*)",
            f"sum({self._value()})",
            f"min({self._text()})",
            f"max({self._value()})",
            f"count(distinct {self._text()})",
            f"median({self._value()})",
            f"list({self._value()} order by o.id)",
            f"string_agg({self._text()}, ',' order by o.id)",
            f"sum(o.total) filter ({self._condition()})",
            f"arg_max(o.id, {self._value()} * 1000 + o.id)",
            "bool_or(o.total > 3)",
            f"quantile_disc({self._value()}, 0.5)",
        )

    def _window(self) -> str:
        order = f"order by {self._value()}, o.id"
        return self._one(
            f"row_number() over ({order})",
            f"rank() over (partition by o.customer {order})",
            f"sum(o.id) over ({order} rows between 2 preceding and current row)",
            f"lag(o.id, 1, 0) over ({order})",
            f"count(*) over (partition by {self._text()})",
            f"first_value(o.id) over (partition by o.status {order} desc)",
            f"ntile(4) over ({order})",
        )


_WRITTEN: Final = r"""
select list(status order by total desc)[1], list(id)[1:2], array_agg(id)[1] from orders;
select [x * 2 for x in [1, 2, 3] if x > 1], [x for x in [1, 2]];
select mean(total), arbitrary(customer), countif(total > 5), count_star(), kahan_sum(total),
sumkahan(total), arg_max_null(id, total), arg_min_null(id, total), kurtosis_pop(total),
approx_top_k(status, 2), histogram_exact(status, ['sent']) from orders;
select try(1 // (total - 5)), try(status::integer) from orders order by id;
select random() between 0 and 1, uuid() is not null, gen_random_uuid() is not null,
transaction_timestamp() is not null;
select lcase('A'), ucase('a'), ord('A'), sha1('a'), md5_number('a'), to_hex(10), from_hex('0a'),
to_binary(5), from_binary('101'), to_base(10, 2), nfc_normalize('a'), length_grapheme('ab'),
left_grapheme('ab', 1), right_grapheme('ab', 1), substring_grapheme('abc', 1, 2),
bit_position('1'::bit, '01'::bit), format_bytes(1000), formatReadableSize(1000),
formatReadableDecimalSize(1000), parse_filename('a/b.c'), parse_dirname('a/b'),
parse_dirpath('a/b');
select divide(7, 2), multiply(2, 3), subtract(3, 1), roundbankers(2.5, 0), signbit(-1.0::double),
greatest_common_divisor(4, 6), least_common_multiple(2, 3);
select era(date '2024-01-01'), julian(date '2024-01-01'), days_in_month(date '2024-02-01'),
make_timestamp_ms(1), make_timestamp_ns(1)::varchar, make_timestamptz(1), to_centuries(1)::varchar,
to_decades(1)::varchar, to_millennia(1)::varchar,
timezone_hour(timestamptz '2024-01-01 00:00:00+00'),
timezone_minute(timestamptz '2024-01-01 00:00:00+00');
select list_apply([1], lambda x: x), array_apply([1], lambda x: x),
reduce([1, 2], lambda a, b: a + b), array_reduce([1, 2], lambda a, b: a + b), aggregate([1], 'sum'),
array_aggregate([1], 'sum'), array_aggr([1], 'sum'), list_cat([1], [2]), array_cat([1], [2]),
list_pack(1, 2), array_extract([1], 1), array_indexof([1], 1), array_grade_up([2, 1]),
array_reverse_sort([1, 2]), array_select([1, 2], [1]), array_where([1], [true]), array_zip([1],
[2]), array_push_back([1], 2), array_push_front([1], 2), array_pop_back([1, 2]),
array_pop_front([1, 2]), array_prepend(1, [2]);
select list_distance([1.0], [2.0]), list_cosine_distance([1.0], [2.0]), list_inner_product([1.0],
[2.0]), list_dot_product([1.0], [2.0]),
array_distance(array_value(1.0::float), array_value(2.0::float)),
array_cosine_distance(array_value(1.0::float), array_value(2.0::float)),
array_cosine_similarity(array_value(1.0::float), array_value(2.0::float)),
array_inner_product(array_value(1.0::float), array_value(2.0::float)),
array_dot_product(array_value(1.0::float), array_value(2.0::float)),
array_cross_product(array_value(1.0, 2.0, 3.0), array_value(2.0, 3.0, 4.0));
select list_mode([1, 1]), list_histogram([1]), list_entropy([1]), list_stddev_pop([1, 2]),
list_stddev_samp([1, 2]), list_var_pop([1, 2]), list_var_samp([1, 2]), list_sem([1, 2]),
list_mad([1]), list_skewness([1, 2, 4]), list_kurtosis([1, 2, 3, 5]), list_bit_and([1]),
list_bit_or([1]), list_bit_xor([1]), list_bool_and([true]), list_bool_or([true]),
list_approx_count_distinct([1]);
select struct_extract_at(row(1, 2), 1), struct_concat({'a': 1}, {'b': 2}), struct_update({'a': 1}, a
:= 2), struct_contains(row(1, 2), 1), struct_has(row(1, 2), 1), struct_indexof(row(1, 2), 1),
struct_position(row(1, 2), 1), union_value(a := 1), union_tag(union_value(a := 1)),
union_extract(union_value(a := 1), 'a'), map_contains_value(map {'a': 1}, 1),
map_contains_entry(map {'a': 1}, 'a', 1), map_extract_value(map {'a': 1}, 'a');
select json_value('{"a": 1}', '$.a'), json_exists('{"a": 1}', '$.a'), json_pretty('{"a": 1}'),
json_merge_patch('{"a": 1}', '{"b": 2}'), json_extract_path('{"a": 1}', 'a'),
json_extract_path_text('{"a": 1}', 'a'), array_to_json([1]);
select key, value from json_tree('{"a": {"b": 1}}');
select json_group_structure(to_json({'a': id})) from orders;
select * from orders order by id;
select id, total * 2 as d from orders where status = 'sent' order by 1;
select count(*), sum(total), avg(total), min(total), max(total) from orders;
select status, count(*) as n from orders group by status order by all;
select status, count(*) as n from orders group by all order by all;
select customer, sum(total) as n from orders group by rollup (customer) order by all;
select customer, status, sum(total) as n from orders group by cube (customer, status) order by all;
select customer, sum(total) as n from orders group by grouping sets ((), (customer)) order by all;
select name, sum(total) as n from customers c join orders o on o.customer = c.id group by all
order by all;
select name, o.id from customers c left join orders o on o.customer = c.id order by all;
select * from customers c full join orders o on c.id = o.customer order by all;
select c.name from customers c semi join orders o on o.customer = c.id order by all;
select c.name from customers c anti join orders o on o.customer = c.id and o.total > 6 order by
all;
select * from customers natural join (select 1 as id) x;
select * from customers join (select 1 as id) x using (id);
select * from orders o asof join customers c on o.id >= c.id order by all;
select * from customers positional join orders order by all;
select * from customers cross join range(2) r(i) order by all;
select c.name, t.m from customers c, lateral (select max(total) as m from orders where customer =
c.id) t order by all;
with x as (select * from orders) select count(*) from x;
with x as materialized (select * from orders), y as (select id from x) select * from y order by id;
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select sum(n) from t;
select id, row_number() over (order by total desc) as r from orders order by id;
select id, rank() over (partition by customer order by total desc) as r, dense_rank() over w as d
from orders window w as (order by status) order by id;
select id, sum(total) over (order by id rows between unbounded preceding and current row) as s
from orders order by id;
select id, lag(total) over (order by id) as a, lead(total, 1, 0) over (order by id) as b from
orders order by id;
select id, first_value(total) over (order by id) as a, nth_value(total, 2) over (order by id rows
between unbounded preceding and unbounded following) as b from orders order by id;
select id, ntile(2) over (order by id) as t, cume_dist() over (order by id) as c, percent_rank()
over (order by id) as p from orders order by id;
select id from orders qualify row_number() over (order by total desc) = 1;
select distinct status from orders order by status;
select distinct on (customer) customer, total from orders order by customer, total desc;
select count(*) filter (where total > 5) as n, sum(total) filter (status = 'sent') as s from
orders;
select id from orders where total between 5 and 6 or status in ('x', '10%') order by id;
select id from orders where status like '1%' or status ilike 'SENT' order by id;
select id from orders where status similar to 's.*' order by id;
select id from orders where status not like '10!%' escape '!' order by id;
select id from orders where total is distinct from 5 order by id;
select case when total > 5 then 'big' else 'small' end as size from orders order by id;
select case status when 'sent' then 1 end as s from orders order by id;
select coalesce(null, status), nullif(status, 'sent'), ifnull(null, 1), greatest(1, 2), least(1,
2) from orders order by id;
select if(total > 5, 'a', 'b') as x from orders order by id;
select * exclude (mail) from orders order by id;
select * replace (total + 1 as total) from orders order by id;
select * rename (total as amount) from orders order by id;
select columns('i.*') from orders order by id;
select columns(lambda c: c like 'to%') from orders order by id;
select max(columns(* exclude (status))) from orders;
from orders order by id limit 1;
from orders select id order by id;
select id from orders order by total desc nulls first, id asc limit 1 offset 1;
select (select max(total) from orders) as m, exists (from orders where total > 6) as e;
select id from orders where total = any (select max(total) from orders);
select id from orders where customer in (select id from customers where name = 'Bo');
select 1 union select 2 union all select 2 order by all;
select 1 as a union all by name select 2 as b order by all;
select total from orders except select 5 order by all;
select total from orders intersect select 5 order by all;
values (1, 'a'), (2, 'b');
select * from (values (1, 'a'), (2, 'b')) v(x, y) order by x;
select upper(status), lower(status), length(status), trim(status), reverse(status) from orders
order by id;
select substr(status, 1, 2), substring(status from 2 for 2), left(status, 2), right(status, 2),
status[1:2], status[1] from orders order by id;
select replace(status, 's', 'x'), concat(status, id), concat_ws('-', status, id), status || id
from orders order by id;
select lpad(status, 6, '*'), rpad(status, 6, '*'), ltrim('  a'), rtrim('a  ')
from orders order by id;
select starts_with(status, 's'), ends_with(status, 't'), contains(status, 'e'), prefix(status,
's'), suffix(status, 't') from orders order by id;
select position('e' in status), strpos(status, 'e'), instr(status, 'e') from orders order by id;
select split_part('a-b-c', '-', 2), string_split('a-b', '-'), str_split('a-b', '-'),
string_to_array('a-b', '-');
select regexp_matches(status, '^s'), regexp_replace(status, 's', 'x'), regexp_extract(status,
'([a-z])', 1), regexp_full_match(status, '.*') from orders order by id;
select regexp_extract_all('a1b2', '[0-9]'), regexp_split_to_array('a1b', '[0-9]');
select format('{} is {}', 'a', 1), printf('%d-%s', 1, 'x'), chr(65), ascii('A'), unicode('A');
select md5('a'), sha256('a'), hash('a') is not null, base64('a'::blob), hex('a'), unhex('61');
select abs(-1), ceil(1.2), floor(1.8), round(1.25, 1), trunc(1.9), sign(-2), mod(7, 3), 7 % 3, 7
// 2, 7 / 2, 2 ** 3, 2 ^ 3;
select sqrt(4), cbrt(8), exp(0), ln(1), log(10), log2(8), log10(100), power(2, 3), pi(), sin(0),
cos(0), tan(0), atan2(0, 1), degrees(pi()), radians(180);
select 5 & 3, 5 | 3, xor(5, 3), 1 << 3, 8 >> 1, ~1;
select gcd(6, 4), lcm(6, 4), factorial(4), even(3), isnan(1.0::double), isfinite(1.0::double);
select 1::double / 0, 0.1 + 0.2, 1e3, .5, 1_000, 10 / 4, 10 // 4, -7 // 2, -7 % 3;
select cast('5' as int), '5'::bigint, try_cast('x' as int), 1.5::decimal(10, 2), 5::varchar,
'true'::boolean, 1::hugeint;
select date '2024-02-29', '2024-01-31'::date + interval 1 month, date '2024-03-01' - date
'2024-02-01', date '2024-01-01' + 5;
select extract(year from date '2024-05-06'), date_part('month', date '2024-05-06'), year(date
'2024-05-06'), month(date '2024-05-06'), day(date '2024-05-06'), dayname(date '2024-05-06'),
monthname(date '2024-05-06'), week(date '2024-05-06'), quarter(date '2024-05-06'), dayofweek(date
'2024-05-06'), isodow(date '2024-05-06');
select date_trunc('month', date '2024-05-06'), date_diff('day', date '2024-01-01', date
'2024-02-01'), datediff('hour', timestamp '2024-01-01', timestamp '2024-01-02'), date_add(date
'2024-01-01', interval 1 day), last_day(date '2024-02-01'), time_bucket(interval '1 week', date
'2024-05-06');
select [1, 2, 3], [1, 2, 3][1], [1, 2, 3][2:3], len([1, 2]), list_value(1, 2), array[1, 2];
select list_contains([1, 2], 1), list_position([1, 2], 2), list_sum([1, 2]), list_max([1, 2]),
list_min([1, 2]), list_sort([2, 1]), list_reverse([1, 2]), list_distinct([1, 1]), list_concat([1],
[2]), list_unique([1, 1]), list_aggregate([1, 2], 'sum');
select list_transform([1, 2], lambda x: x + 1), list_filter([1, 2, 3], lambda x: x > 1),
list_reduce([1, 2, 3], lambda a, b: a + b);
select list_append([1], 2), list_prepend(0, [1]), array_append([1], 2), list_has_any([1], [1]),
list_has_all([1, 2], [1]), list_slice([1, 2, 3], 1, 2), list_zip([1], [2]), flatten([[1], [2]]),
list_avg([1, 2]), list_intersect([1, 2], [2]);
select unnest([1, 2, 3]) as n order by n;
select * from unnest([1, 2]) u(a) order by a;
select o.id, u.x from orders o, unnest([o.id, o.total]) u(x) order by all;
select range(3), generate_series(1, 3);
select * from range(3) order by all;
select * from generate_series(1, 5, 2) t(i) order by i;
select {'a': 1, 'b': 'x'} as s, ({'a': 1}).a, {'a': 1}['a'], struct_pack(a := 1), row(1, 2),
struct_extract({'a': 5}, 'a');
select s.a, s.b.c from (select {'a': 1, 'b': {'c': 2}} as s);
select s.* from (select {'a': 1, 'b': 2} as s);
select unnest({'a': 1, 'b': 2});
select struct_keys({'a': 1}), struct_insert({'a': 1}, b := 2);
select map {'a': 1, 'b': 2} as m, map {'a': 1}['a'], map_keys(map {'a': 1}), map_values(map {'a':
1}), map_entries(map {'a': 1}), cardinality(map {'a': 1}), map_from_entries([('a', 1)]),
element_at(map {'a': 1}, 'a');
select list(total order by id), array_agg(total order by id desc), string_agg(status, ',' order by
id), group_concat(status, '|' order by id), listagg(status, ';' order by id) from orders;
select median(total), mode(customer), quantile_cont(total, 0.5), quantile_disc(total, [0.25,
0.75]), stddev(total), var_pop(total), stddev_samp(total), variance(total) from orders;
select arg_max(id, total), arg_min(id, total), max_by(id, total), min_by(status, total),
any_value(customer), first(id order by id), last(id order by id) from orders;
select bool_and(total > 0), bool_or(total > 6), bit_and(id), bit_or(id), product(total),
count(distinct status), approx_count_distinct(status), count_if(total > 5) from orders;
select corr(id, total), covar_pop(id, total), regr_slope(id, total), skewness(total),
kurtosis(total), entropy(total), mad(total) from orders;
select histogram(total), max(total, 2), min(id, 1) from orders;
select percentile_cont(0.5) within group (order by total), percentile_disc(0.5) within group
(order by total) from orders;
select to_json({'a': [1, 2]}), json_object('a', 1), json_array(1, 2), json_extract('{"a": 5}',
'$.a'), json_extract_string('{"a": "x"}', '$.a'), '{"a": 1}'::json ->> 'a', '{"a": {"b":
1}}'::json -> 'a' -> 'b';
select json_valid('{}'), json_type('[1]'), json_array_length('[1, 2]'), json_keys('{"a": 1}'),
json_structure('{"a": 1}'), json_group_array(id) from orders;
select * from json_each('{"a": 1}');
select typeof(total), typeof(1.5), typeof([1]) from orders limit 1;
select id as "My Id", total "Total Sum" from orders order by "My Id";
select o."id", "o".total from orders as o where "o"."status" = 'sent';
select sum(total) as t from orders having sum(total) > 1;
select customer, count(*) as n from orders group by customer having n > 0 order by n desc,
customer;
select total as t from orders where t > 5 order by t;
select levenshtein('a', 'b'), jaccard('ab', 'ac'), damerau_levenshtein('a', 'b'), hamming('ab',
'ac'), jaro_winkler_similarity('ab', 'ac');
select true and not false or null, 1 = 1.0, 'a' < 'b', null is null, 1 <> 2, 1 != 2;
select -id, +id, - -id, (id), ((id + 1) * 2) from orders order by id;
select current_date is not null, now() is not null, current_timestamp is not null, today() is not
null;
select *, total * 1.0 / sum(total) over () as share from orders order by id;
select sum(total) over (partition by customer) as s, avg(total) over (order by id range between 1
preceding and 1 following) as a from orders order by id;
select sum(total) over (order by id rows between 1 preceding and 1 following exclude current row)
as s from orders order by id;
select count(distinct customer) filter (where total > 0) as n from orders;
select date_trunc('hour', timestamp '2024-01-01 10:30:00'), date_sub('month', date '2024-01-01',
date '2024-03-01'), (date '2024-01-01')::timestamp;
select * from orders where id = (select id from orders order by total desc limit 1);
select a.id, b.id from customers a, customers b where a.id < b.id order by all;
select id from (select id, total from orders where total > 5) x where x.id > 0;
select x.* from (select * from orders) as x order by x.id;
select total, count(*) over () as n from orders order by total fetch first 1 rows only;
select uuid '00000000-0000-0000-0000-000000000001', blob 'a', '1010'::bit;
select url_encode('a b'), to_base64('a'::blob), from_base64('YQ=='), translate('abc', 'a', 'x'),
strip_accents('ä'), bar(1, 0, 2);
select weighted_avg(total, id), geomean(total), fsum(total), favg(total), sem(total),
bit_xor(id) from orders;
select round_even(2.5, 0), fdiv(7, 2), fmod(7, 2), sinh(0), cosh(0), tanh(0), asinh(0), gamma(5),
bit_count(5), nextafter(1.0::double, 2);
select timezone('UTC', timestamptz '2024-01-01 00:00:00+00'), timestamptz '2024-01-01 00:00:00+00'
at time zone 'UTC';
select id from orders where status = '10%' and total >= 7.0 and not (customer = 1) order by id;
select ''::varchar, 'it''s', $$x'y$$;
select timestamp '2024-01-01 10:00:00' + interval '90 minutes', time '10:00';
select to_timestamp(0), epoch_ms(0), make_date(2024, 5, 6), strptime('2024-05-06', '%Y-%m-%d');
select place.city, tags[1], len(tags), place['zip'] from customers order by id;
select t.tag, count(*) as n from customers, unnest(tags) t(tag) group by all order by all;
select kind, date_trunc('hour', seen) as hour, count(*) filter (ok) as n, round(avg(value), 3) as v
from events group by all order by all;
select * from events where seen between timestamp '2024-03-01 00:30:00' and timestamp '2024-03-01
01:00:00' order by seen;
select seen, value - lag(value) over (partition by kind order by seen) as step from events
order by seen
"""
