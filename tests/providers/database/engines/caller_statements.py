"""Statements of callers that databases must answer as they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_SHARED: Final = r"""
select id, status, price, doc, mail, phone, pin from orders order by id;
select id, mail, phone, pin from orders order by id desc;
select status, count(*) as n, sum(price) from orders group by status order by n, status;
select phone from orders where phone like '%1234';
select price from orders where price > 5 order by price desc limit 1;
select name, (select count(*) from orders where orders.id = products.id) from products order by 1;
select p.name, o.* from products p left join orders o on o.id = p.id order by 1
"""

_OWN: Final[Mapping[str, str]] = {
    "postgresql": r"""
select a.id, b.id from orders a join orders b on a.id = b.id;
select now() > '2020-01-01'::date;
select count(*) filter (where price > 5) from orders;
select date_trunc('month', timestamp '2024-05-06 07:08:09');
select '2024-05-06'::date + 3, '2024-05-06'::date - interval '1 month',
age('2024-01-01'::timestamp, '2023-01-01');
select extract(year from date '2024-02-03'), date_part('dow', date '2024-02-03');
select to_char(timestamp '2024-05-06 07:08:09', 'YYYY-MM-DD HH24:MI'), to_date('2024', 'YYYY'),
to_number('12,3', '99G9'), to_timestamp(0) at time zone 'utc';
select 'a' || 1, concat('a', null, 1), concat_ws('-', 'a', 'b'), upper('x'), initcap('ab cd'),
length('äö'), char_length('ä'), octet_length('ä');
select substring('abcdef' from 2 for 3), substring('abcdef', 2), substr('abcdef', 2, 2),
left('abc', 2), right('abc', 2), position('b' in 'abc'), strpos('abc', 'c'), overlay('abcdef'
placing 'x' from 2 for 3);
select trim('  a '), trim(both 'x' from 'xax'), ltrim('xa', 'x'), rtrim('ax', 'x'), btrim(' a '),
lpad('5', 3, '0'), rpad('a', 3), reverse('abc'), split_part('a,b', ',', 2), replace('aba', 'a',
'c'), translate('abc', 'ab', 'xy'), md5('a'), ascii('a'), chr(65);
select 'abc' like 'a%', 'abc' ilike 'A%', 'abc' not like 'b%', 'abc' ~ '^a', 'abc' ~* '^A', 'abc'
!~ 'b', 'abc' similar to 'a%';
select 'a_b' like 'a\_b', 'a%b' like 'a!%b' escape '!';
select regexp_replace('abc', 'b', 'x'), regexp_replace('abab', 'b', 'x', 'g'), regexp_match('abc',
'(b)'), regexp_split_to_array('a,b', ',');
select case when 1=1 then 'a' else 'b' end, case 3 when 3 then 'c' end, coalesce(null, 2),
nullif(1, 1), greatest(1, 2), least(1, 2);
select 1 in (1, 2), 3 not in (select 1), exists (select 1), 1 between 0 and 2, null is null, 1 is
distinct from 2, 1 is not distinct from 1, true is true, 1 = any(array[1,2]), 1 = all(array[1]), 1
<> all (select 2);
select array[1,2,3], (array[1,2,3])[2], (array[1,2,3])[1:2], array_length(array[1,2], 1),
cardinality(array[1]), array_to_string(array['a','b'], ','), 'a' = any(string_to_array('a,b',
',')), array[1] || 2, array[1] || array[2], array_agg(x order by x desc) from unnest(array[1,2]) x;
select '{"a": {"b": [1,2]}}'::jsonb -> 'a' -> 'b' -> 0, '{"a": 1}'::json ->> 'a',
'{"a": {"b": 1}}'::jsonb #>> '{a,b}', '{"a": {"b": 1}}'::jsonb #> '{a}', '{"a": 1}'::jsonb @>
'{"a": 1}'::jsonb, '{"a": 1}'::jsonb ? 'a', jsonb_typeof('[1]'::jsonb);
select * from jsonb_each_text('{"a": 1}'::jsonb);
select x ->> 'a' from jsonb_array_elements('[{"a": 1}]'::jsonb) x;
select jsonb_build_object('a', 1, 'b', 'x'), json_build_array(1, 2), to_jsonb(1), jsonb_agg(x)
from generate_series(1, 2) x;
select row_number() over (order by id), rank() over (partition by name order by id desc), lag(id,
1) over w, sum(id) over (order by id rows between 1 preceding and current row), first_value(id)
over w from products window w as (order by id);
select sum(id) over (order by id range between unbounded preceding and unbounded following),
ntile(2) over (order by id), percent_rank() over (order by id), nth_value(id, 2) over (order by
id) from products;
select name, count(*) from products group by name having count(*) > 0 order by 2 desc, name nulls
last limit 5 offset 0;
select name, sum(id) from products group by rollup (name) order by 1;
select name, sum(id) from products group by grouping sets ((name), ()) order by 1;
select name, sum(id) from products group by cube (name) order by 1;
select distinct name from products order by name;
select distinct on (name) name, id from products order by name, id desc;
select string_agg(name, ',' order by name), array_agg(distinct name) from products;
select percentile_cont(0.5) within group (order by id), mode() within group (order by id),
stddev(id), variance(id), bool_and(id > 0), every(id > 0), corr(id, id) from products;
with recursive t(n) as (values (1) union all select n + 1 from t where n < 5) select sum(n) from t;
with a as (select id from products), b as materialized (select id from a) select * from b;
select * from products p left join orders o on o.id = p.id join (select 1 as id) z on z.id = p.id
order by 1;
select * from products natural join (select 1 as id) z;
select * from products cross join generate_series(1, 2) g;
select p.name, l.n from products p left join lateral (select count(*) as n from orders o where
o.id = p.id) l on true order by 1;
select p.name, l.n from products p, lateral (select max(o.id) as n from orders o where o.id =
p.id) l order by 1;
select 1 union select 2 union all select 2 order by 1;
select id from products intersect select id from orders except select 9 order by 1;
(select 1) union (select 2) order by 1 limit 1;
values (1, 'a'), (2, 'b');
table products;
select * from (values (1, 'a'), (2, 'b')) as v(n, t);
select * from products where (id, name) in (select id, name from products) order by id;
select * from products where (id, name) = (1, 'tea');
select cast('1' as int), '1'::numeric(10, 2), '2020-01-01'::timestamptz at time zone 'UTC',
'1'::text, 'abc'::varchar(2), 'abc'::char(2), 1::boolean, 1.5::int, '1'::bigint, '1.5'::double
precision, '1.5'::real, '{1,2}'::int[];
select interval '1 day' * 2, interval '1 hour 30 minutes', make_interval(days => 3),
justify_hours(interval '30 hours'), extract(epoch from interval '1 hour'), interval '1' day;
select generate_series('2024-01-01'::date, '2024-01-03'::date, interval '1 day');
select d::date from generate_series('2024-01-01'::timestamp, '2024-01-03'::timestamp, '1 day') d;
select round(2.567, 2), round(2.5), trunc(2.7), ceil(2.1), floor(2.9), abs(-1), sign(-2), mod(7,
3), power(2, 3), sqrt(4), exp(0), ln(1), log(100), log(2, 8), pi(), div(7, 2), width_bucket(5, 0,
10, 5);
select true and not false or null, not (1 = 2), 1 <> 2, 1 != 2;
select 1e3, 1.5e-2, .5, 5., 100000000000000000000, 0.1 + 0.2;
select encode(sha256('a'), 'hex'), encode('a'::bytea, 'base64'), md5('a');
select to_tsvector('english', 'cats run') @@ to_tsquery('english', 'cat');
select id as "Weird Name", name as "select" from products order by "Weird Name";
select count(distinct name), count(distinct (id, name)) from products;
select min(name), max(id), avg(id), sum(id * 1.5) from products;
select * from products order by id desc nulls first fetch first 1 rows only;
select p.* , p.id + 1 as next from products p order by next;
select '2024-01-01 10:00'::timestamp - '2024-01-01 09:00'::timestamp, date '2024-01-05' - date
'2024-01-01';
select products.id from products where products.name = 'tea';
select "products"."id" from "products";
select upper(p.name) from products as p where p.id in (1, 2) and p.name is not null;
select sum(case when id = 1 then 1 else 0 end) from products;
select row_to_json(p) from products p;
select json_agg(p) from products p;
select json_agg(json_build_object('id', id, 'name', name)) from products;
select name from products where id = (select min(id) from products);
select age(timestamp '2024-01-01') > interval '1 day';
select date_bin('15 minutes', timestamp '2024-01-01 10:07', timestamp '2024-01-01');
select 'a' < 'b', 'a' collate "C" < 'B';
select id, name from products where name ~ 'te' limit 10;
select num_nulls(1, null), num_nonnulls(1, null);
select coalesce(name, '') || ' (' || id || ')' from products;
select id::text || name from products;
select extract(isodow from date '2024-01-01'), extract(week from date '2024-01-01'),
extract(quarter from date '2024-05-01');
select x.n from (select count(*) as n from products) x;
select count(*) over () from products limit 1;
select lag(id) over (order by id), lead(id, 1, 0) over (order by id) from products;
select max(id) filter (where name = 'tea') over () from products
""",
    "mariadb": r"""
select a.id, b.name from orders a join products b on a.id = b.id;
select 7/2, 7 div 2, 7 % 2, 7 mod 2, mod(7, 2), 5 & 3, 5 | 3, 5 ^ 3, ~5, 1 << 3, -(-3), !0, not 1;
select 'a' || 'b', 1 || 0, 1 && 1, 1 xor 1, 1 and 0 or 1;
select concat('a', null), concat_ws('-', 'a', 'b'), upper('x'), length('äö'), char_length('ä'),
lower('X'), ucase('x'), lcase('X');
select substring('abcdef' from 2 for 3), substring('abcdef', 2), substr('abcdef', 2, 2),
mid('abc', 2, 1), left('abc', 2), right('abc', 2), position('b' in 'abc'), locate('c', 'abc'),
locate('b', 'abcb', 3), instr('abc', 'b'), substring_index('a,b,c', ',', 2);
select trim('  a '), trim(both 'x' from 'xax'), trim(leading 'x' from 'xax'), ltrim(' a'),
rtrim('a '), lpad('5', 3, '0'), rpad('a', 3, 'b'), reverse('abc'), replace('aba', 'a', 'c'),
insert('abc', 1, 1, 'x'), field('a', 'b', 'a'), find_in_set('b', 'a,b'), elt(1, 'a'), hex('a'),
hex(255), unhex('61'), ascii('a'), ord('a'), char(65, 66), bin(3), oct(9), conv('ff', 16, 10);
select 'abc' like 'a%', 'abc' not like 'b%', 'abc' regexp '^a', 'abc' rlike 'b', 'abc' not regexp
'x', 'a_b' like 'a\_b', 'a%' like 'a!%' escape '!', strcmp('a', 'b');
select regexp_replace('abc', 'b', 'x'), regexp_substr('abc', 'b'), regexp_instr('abc', 'b');
select 1 in (1, 2), 3 not in (select 1), exists (select 1), 1 between 0 and 2, null is null, 1 <=>
null, null <=> null, 1 is true, 1 is not null, 1 = any (select 1), 1 <> all (select 2);
select date('2024-05-06 07:08:09'), time('2024-05-06 07:08:09'), year('2024-05-06'),
month('2024-05-06'), day('2024-05-06'), dayofmonth('2024-05-06'), dayofweek('2024-05-06'),
dayofyear('2024-05-06'), weekday('2024-05-06'), week('2024-05-06'), week('2024-05-06', 3),
weekofyear('2024-05-06'), yearweek('2024-05-06'), quarter('2024-05-06'), hour('07:08:09'),
minute('07:08:09'), second('07:08:09'), microsecond('07:08:09.5'), dayname('2024-05-06'),
monthname('2024-05-06'), last_day('2024-02-01');
select date_format('2024-05-06 07:08:09', '%Y-%m-%d %H:%i:%s %W %M %j %p %T'),
str_to_date('06.05.2024', '%d.%m.%Y'), time_format('07:08:09', '%H'), from_unixtime(0),
unix_timestamp('2024-01-01'), to_days('2024-01-01'), from_days(739251), to_seconds('2024-01-01'),
sec_to_time(3600), time_to_sec('01:00:00'), makedate(2024, 5), maketime(1, 2, 3);
select date_add('2024-01-31', interval 1 month), date_sub('2024-01-31', interval 1 day),
'2024-01-31' + interval 1 day, '2024-01-31' - interval 2 week, adddate('2024-01-01', 5),
adddate('2024-01-01', interval 5 day), subdate('2024-01-05', 1), datediff('2024-01-05',
'2024-01-01'), timediff('10:00:00', '09:00:00'), timestampdiff(month, '2024-01-01', '2024-05-01'),
timestampadd(day, 1, '2024-01-01'), addtime('10:00:00', '00:00:01'), subtime('10:00:00',
'00:00:01'), period_add(202401, 2), period_diff(202403, 202401);
select date_add('2024-01-31 00:00:00', interval '1 2' day_hour);
select extract(year from '2024-05-06'), extract(month from '2024-05-06'), extract(day from
'2024-05-06');
select json_arrayagg(name), json_objectagg(id, name) from products;
select row_number() over (order by id), rank() over (partition by name order by id desc), lag(id,
1) over w, sum(id) over (order by id rows between 1 preceding and current row), first_value(id)
over w from products window w as (order by id);
select ntile(2) over (order by id), percent_rank() over (order by id), nth_value(id, 2) over
(order by id), cume_dist() over (order by id), dense_rank() over (order by id) from products;
select median(id) over (partition by name), percentile_cont(0.5) within group (order by id) over
(partition by name) from products;
select name, count(*) from products group by name having count(*) > 0 order by 2 desc, name limit
5 offset 0;
select name, count(*) from products group by name order by name limit 0, 5;
select name, sum(id) from products group by name with rollup;
select distinct name from products order by name;
select group_concat(name order by name separator ';'), group_concat(distinct name), count(distinct
name), std(id), stddev(id), variance(id), var_samp(id), stddev_samp(id), bit_or(id), bit_and(id),
bit_xor(id) from products;
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select sum(n) from t;
with a as (select id from products), b as (select id from a) select * from b;
select p.id, o.status from products p left join orders o on o.id = p.id order by 1;
select p.id, o.status from products p right join orders o using (id) order by 1;
select id from products natural join (select 1 as id) z;
select p.name, z.id from products p cross join (select 1 as id) z order by 1;
select 1 union select 2 union all select 2 order by 1;
select id from products intersect select id from orders;
select id from products except select id from orders;
(select 1) union (select 2) order by 1 limit 1;
select * from products where (id, name) in (select id, name from products) order by id;
select * from products where (id, name) = (1, 'tea');
select cast('1' as signed), cast('1' as unsigned), cast('1.55' as decimal(10, 1)), cast(1 as
char), cast('abc' as char(2)), cast('2024-01-01' as date), cast('2024-01-01' as datetime),
cast('1' as double), cast('a' as binary), convert('1', signed), binary 'a' = 'A', cast('10:00' as
time);
select round(2.567, 2), round(2.5), truncate(2.78, 1), ceil(2.1), ceiling(2.1), floor(2.9),
abs(-1), sign(-2), power(2, 3), pow(2, 3), sqrt(4), exp(0), ln(1), log(10), log(2, 8), log2(8),
log10(100), pi(), sin(0), cos(0), tan(0), atan(1, 2), degrees(pi()), radians(180), crc32('a'),
rand(1), format(1234.5, 1);
select md5('a'), sha1('a'), sha2('a', 256), sha('a'), to_base64('a'), from_base64('YQ=='),
soundex('abc'), inet_aton('1.2.3.4'), inet_ntoa(16909060);
select "it's", 'it''s', 'a\nb', 'a\\b', "a""b", 'a' 'b', '%', '%s';
select 1e3, 1.5e-2, .5, 5., 100000000000000000000, 0.1 + 0.2, x'41', b'11', true, false,
null;
select id as `Weird Name`, name as 'other' from products order by `Weird Name`;
select min(name), max(id), avg(id), sum(id * 1.5) from products;
select p.* , p.id + 1 as next from products p order by next;
select (select max(id) from products);
select products.id from products where products.name = 'tea';
select P.ID, P.Name from products P where P.Id = 1;
select ID from products where NAME = 'TEA';
select upper(p.name) from products as p where p.id in (1, 2) and p.name is not null;
select sum(case when id = 1 then 1 else 0 end), sum(id = 1), count(id > 1 or null) from products;
select name from products where id = (select min(id) from products);
select 'a' < 'b', 'a' = 'A', 'a' collate utf8mb4_bin = 'A';
select id from products limit 1 offset 1;
select x.n from (select count(*) as n from products) x;
select count(*) over () from products limit 1;
select lag(id) over (order by id), lead(id, 1) over (order by id) from products;
select * from products p where exists (select * from orders o where o.id = p.id) order by p.id
desc;
select name from products order by id desc;
select name from products order by rand(1) limit 1;
select id div 2, id % 2 = 0 from products;
select 'a' regexp 'b' or 1, not 'a' regexp 'b', ('a' regexp 'b') = 0, concat('a','b') regexp 'ab'
and 1
""",
}


def legitimate(engine: str) -> Sequence[str]:
    """Return statements over the tables `orders` and `products`."""
    texts = (_SHARED, _OWN[engine])
    return [statement for text in texts for statement in text.strip().split(";\n")]
