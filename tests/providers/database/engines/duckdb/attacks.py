"""Statements that try to read what a policy hides, by the idea behind them.

`{dir}` is the folder of the database, with the file `secret.csv`, and `{db}` the database's name in
SQL. A value after ` || ` is that of the parameter `:p`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Attack(NamedTuple):
    """One statement."""

    idea: str
    sql: str
    value: str | None
    """Value of its parameter `:p`."""


_TEXTS: Final[Mapping[str, str]] = {
    "hidden columns by name": """
select card from orders
select mail from orders
select o.card from orders o
select orders.card from orders
select "card" from orders
select CARD from orders
select total from orders where card like 'SECRET%'
select id from orders order by card
select id from orders order by mail desc limit 1
select max(card) as c from orders
select count(distinct card) as n from orders
select list(card) as l from orders
select arg_max(card, id) as c from orders
select string_agg(mail, ',') as m from orders
select first(card order by id desc) as c from orders
select approx_top_k(card, 5) as c from orders
select histogram(card) as c from orders
select id, row_number() over (order by card) as place from orders
select id, lag(card) over () as c from orders
select id from orders qualify rank() over (order by card) = 1
select id from orders group by id, card
select id from orders group by id having max(card) > 'SECRETa'
select distinct on (card) id from orders
select customer as card from orders where card > ''
select o.id from orders o join customers c on o.card = c.name
select struct_extract(orders, 'card') as c from orders
select orders['card'] as c from orders
select (orders).card as c from orders
select customer as audit, (select card) as c from orders
select x.c from (select card as c from orders) x
select x.card from orders as x(a, b, c, d, card, mail)
from orders select card
""",
    "whole rows": """
select * from orders
select orders from orders
select orders as o from orders
select o from orders o
select row(o) as r from orders o
select row(o.*) as r from orders o
select (o.*) from orders o
select struct_pack(o := o) as s from orders o
select to_json(o) as j from orders o
select row_to_json(o) as j from orders o
select json_group_array(o) as j from orders o
select list(o) as l from orders o
select o::varchar as t from orders o
select hash(o) as h from orders o
select struct_keys(o) as k from orders o
select md5(o::varchar) as h from orders o
select unnest(o) from orders o
select unnest(o, recursive := true) from orders o
select columns(*) from orders
select columns('.*') from orders
select columns('c.*') from orders
select columns('card|mail') from orders
select columns(c -> c like 'c%') from orders
select columns(lambda c: c like 'm%') from orders
select max(columns(*)) from orders
select min(columns(* exclude (id))) from orders
select unpack(columns(*)) from orders
select coalesce(*columns('mail|card')) as c from orders
select * exclude (id) from orders
select * exclude (card) from orders
select * exclude card from orders
select * replace (card || '' as total) from orders
select * replace (total as card) from orders
select * rename (card as shown) from orders
select * rename (total as card) from orders
select * like 'c%' from orders
select * similar to '.*ar.*' from orders
select o.* from orders o
select o.* exclude (total) from orders o
select count(o) as n, max(o) as m from orders o
select distinct o from orders o order by o
select o = o as same, o from orders o order by o desc
select #5 from orders
select id from orders order by 5
select id from orders order by all
select x from (select orders as x from orders)
select list_transform(l, lambda r: r.card) as c from (select list(o) as l from orders o)
select list_transform(list(o), r -> r.mail) as c from orders o
select list_filter(list(o), lambda r: r.total > 100) as c from orders o
select list_reduce(list(o.total), lambda a, b: a + b) as c from orders o
select map_from_entries(list(row(o.id, o))) as m from orders o
select {'a': o} as s from orders o
select [o] as l from orders o
select cast(o as varchar) as c from orders o
select union_value(o := o) as u from orders o
select variant_keys(o::variant) as v from orders o
select try_cast(o as json) as j from orders o
""",
    "names of columns": """
select (select max(status) from orders)
select exists(select 1 from main.orders)
select array(select status from orders o)
select [x for x in (select list(status) from 'orders')]
select * from (select (select max(status) from orders))
from (select (select max(status) from orders)) x select x
from (select (select max(status) from orders)) x select to_json(x) as j
select struct_keys(x) as k from (select exists(from orders)) x
from (unpivot (select (select max(status) from orders)) on columns(*)) select name
with x as (select (select max(status) from orders)) select columns('.*card.*') from x
(with x as (select 1) select (select max(status) from orders))
""",
    "hidden rows": """
select sum(total) as n from orders
select count(*) as n from orders
select count(*) as n from orders where status = 'draft'
select count() as n from orders
select max(total) as n from orders
select avg(total) as n, median(total) as m, mode(total > 0) as o, stddev(total) as s from orders
select approx_count_distinct(total) as n from orders
select approx_quantile(total, 0.99) as n from orders
select quantile_cont(total, [0.1, 1.0]) as n from orders
select reservoir_quantile(total, 1.0) as n from orders
select histogram(total) as h from orders
select arg_max(id, total) as n from orders
select list(total order by total desc) as l from orders
select total from orders order by total desc limit 1
select total from orders order by total desc offset 2
select total from orders limit 50%
select total from orders limit 5 offset 0
select total from orders limit (select count(*) from orders)
select id, total from orders using sample 100 percent (bernoulli)
select id, total from orders tablesample reservoir(10) order by id
select count(*) as n from (select * from orders using sample reservoir(2 rows) repeatable (7))
select id from orders tablesample system(100%)
select id, sum(total) over () as n from orders
select id, sum(total) over (order by id rows between unbounded preceding and unbounded following) \
as n from orders
select id, lead(total) over (order by id) as n from orders
select id, nth_value(total, 3) over (order by id rows between unbounded preceding and \
unbounded following) as n from orders
select id, ntile(2) over (order by id) as n from orders
select id, cume_dist() over (order by id) as n, percent_rank() over (order by id) as p from orders
select id, total from orders qualify row_number() over (order by total desc) = 1
select id, total from orders window w as (order by id) qualify count(*) over w = 3
select customer, sum(total) as n from orders group by all order by all
select customer, status, count(*) as n from orders group by rollup (customer, status)
select customer, count(*) as n from orders group by cube (customer, status)
select customer, count(*) as n from orders group by grouping sets ((), (customer))
select distinct on (customer) customer, total from orders order by customer, total desc
select rowid from orders
select o.rowid, o.total from orders o
select total from orders where rowid = 2
select max(rowid) as n from orders
select file_row_number from orders
select filename from orders
select stats(total) as n from orders
select stats(o.total) as n from orders o limit 1
select total.stats() as n from orders limit 1
select list_transform([1], lambda x: stats(x)) as n from orders limit 1
select main.stats(total) as n from orders limit 1
select system.main.stats(total) as n from orders limit 1
select "STATS"(total) as n from orders limit 1
select vector_type(total) as n from orders
select exists (select 1 from orders where total > 1000) as n
select case when (select max(total) from orders) > 1000 then 'yes' else 'no' end as n
select total in (select total from orders) as n from (values (6666), (9999)) v(total)
select 6666 in (select total from orders) as n
select 6666 = any (select total from orders) as n
select 6666 <> all (select total from orders) as n
select (select total from orders order by total desc limit 1) as n
select array(select total from orders) as n
select (select list(total) from orders) as n
select c.name, (select sum(total) from orders o where o.customer = c.id) as n from customers c
select c.name from customers c where exists \
(from orders o where o.customer = c.id and o.total > 1000)
select c.name, o.n from customers c, lateral \
(select max(total) as n from orders where customer = c.id) o
select c.name, o.n from customers c left join lateral \
(select max(total) as n from orders where customer = c.id) o on true
""",
    "joins": """
select * from orders natural join customers
select * from orders natural join (select 66 as id)
select * from customers join orders using (id)
select * from (select 'SECRETone' as card) x join orders using (card)
select * from (select 'SECRETonecard1' as card) x natural join orders
select * from orders a natural join orders b
select * from orders a join orders b using (id, card)
select * from orders positional join customers
select * from customers positional join orders
select * from customers cross join orders
select * from customers, orders
select orders.* from customers, orders
select * from customers c full join orders o on c.id = o.id
select o.* from customers c right join orders o on false
select * from customers c semi join orders o on o.id > 10
select * from customers c anti join orders o on o.id > 10
select * from customers c asof join orders o on c.id >= o.id
select o.total from (select 99 as id) c asof left join orders o on c.id >= o.id
select * from orders o join customers c on o.customer = c.id join orders p on p.id <> o.id
select * from (orders join customers on true)
select * from ((orders))
select * from (((select * from orders)))
select * from orders as main
select customers.total from orders as customers
""",
    "tables by other names": """
select * from ORDERS
select * from "orders"
select * from "ORDERS"
select * from 'orders'
select * from main.orders
select * from main."orders"
select * from MAIN.ORDERS
select * from "main"."orders"
select * from {db}.orders
select * from "{db}".orders
select * from {db}.main.orders
select * from "{db}"."main"."orders"
select * from {db}.main.audit
select * from {db}.audit
select * from {db}.'audit'
select * from {db}.x.main.audit
select * from "~numbered".orders
select * from "~numbered".audit
select * from {db}."~numbered".orders
select "~row" from orders
select main.orders.card from main.orders
select {db}.main.orders.card from {db}.main.orders
select * from main . orders
select * from main/**/./* */orders
select * from /* /* */ from */ orders
select * from -- comment\torders
select * from\u00a0orders
select * from\u2003audit
select\u3000*\u3000from\u3000audit
select * from\ufefforders
select *\u00a0from\u00a0main.orders
select * from main\u00a0.\u00a0audit
select\u00a0*\u2028from\u2028audit
select * from\u200baudit
select * from $$orders$$
select * from $x$audit$x$
select * from e'aud\\x69t'
select * from U&"aud\\0069t"
select * from "aud" 'it'
select * from audit
select * from AUDIT
select line from audit
select count(*) as n from audit
select line from customers, audit
select audit from audit
select (select max(line) from audit) as n
select * from (values (1)) v, (select line from audit)
select * from main.audit
select * from back.ledger
select * from back."ledger"
select * from {db}.back.ledger
select * from back.open
select * from ledger
select * from temp.audit
select * from system.orders
select * from pg_catalog.orders
select * from recent
select card from main.recent
select * from "straße"
select * from strasse
select * from main."straße"
select * from audit at (version => 1)
table audit
table main.orders
table orders
select * from (table audit)
select * from (from audit)
(from audit)
select * from (from orders select card)
""",
    "common table expressions": """
with x as (select * from orders) select * from x
with x as materialized (select * from orders) select * from x
with x as not materialized (select * from orders) select * from x
with x(a, b, c, d, e, f) as (select * from orders) select e, f from x
with x as (with y as (select * from orders) select * from y) select * from x
with x as (select 1 as one), y as (select * from orders, x) select * from y
with recursive x as (select max(total) as n from orders union all select n + 1 from x where n < 2) \
select n from x
with recursive x(n) using key (n) as (select total from orders union select n from x where false) \
select * from x
with recursive x as (select id, total from orders union select id, total from orders) \
select * from x
with orders as (select * from orders) select * from orders
with orders as (select * from main.orders) select * from orders
with audit as (select * from audit) select * from audit
with audit as (select 1) select * from main.audit
with recursive orders as (select * from orders union all select * from orders) select * from orders
with x as (with audit as (select 1 as one) select * from audit) select * from audit
with x as (select * from audit), audit as (select 1 as one) select * from x
with "~rows 0" as (select 1) select * from "~rows 0"
with duckdb_tables as (select 1 as x) select * from duckdb_tables
with x as (with pg_class as (select 1) select 1) select * from pg_class
with x as (with "{dir}/secret.csv" as (select 1) select 1) select * from "{dir}/secret.csv"
with x as (select * from "{dir}/secret.csv"), "{dir}/secret.csv" as (select 1) select * from x
with "secret.csv" as (from "secret.csv") from "secret.csv"
with x as (delete from orders returning *) select * from x
with x as (update orders set total = total returning *) select * from x
with x as (insert into customers select id, card from orders returning *) select * from x
with x as (insert into customers values (9, 'new') returning *) select * from x
with x as (merge into orders using customers on false when not matched by source then delete \
returning *) select * from x
with x as (create table y as select 1) select * from x
with main as (select 1) select * from main.audit
with customers as (select * from audit) select * from customers
select (with x as (select * from orders) select max(total) from x) as n
select * from (with x as (select * from audit) select * from x) y
""",
    "set operations": """
select id, name from customers union all select total, card from orders
select id, name from customers union all select total, status from orders
select id from customers union select total from orders order by all
select * from customers union by name select * from orders
select * from customers union all by name select * from orders
select * from orders union all by name select 'x' as card
select total from orders except select total from orders where status <> 'draft'
select total from orders except all select 5
select total from orders intersect select 6666
values (1) union all select max(total) from orders
values ((select max(line) from audit))
(select * from audit)
(select total from orders) union all (select 1)
""",
    "pivots, summaries and descriptions": """
select * from orders pivot (sum(total) for status in ('sent', 'draft'))
select * from orders pivot (max(card) for status in ('sent', 'draft'))
select * from (pivot orders on status using sum(total))
select * from (pivot orders on status in ('draft') using max(total))
select * from (pivot orders on card)
select * from orders unpivot (v for n in (total, id))
select * from orders unpivot (v for n in (card, mail))
select * from (unpivot orders on card, mail into name n value v)
select * from (unpivot orders on columns(* exclude id)::varchar into name n value v)
select * from (unpivot orders on columns('c.*')::varchar)
select * from (summarize orders)
select * from (summarize select * from orders)
select * from (summarize audit)
select * from (summarize main.orders)
select * from (describe orders)
select * from (describe audit)
select * from (describe select * from audit)
select * from (show audit)
select * from (show tables)
select * from (show all tables)
select * from (show databases)
select * from (desc main.orders)
summarize orders
describe audit
show tables
explain select * from audit
explain analyze select * from orders
pivot orders on status using sum(total)
unpivot orders on card, mail
""",
    "the catalog": """
select * from information_schema.tables
select table_name, column_name from information_schema.columns
select * from information_schema.schemata
select * from sqlite_master
select sql from sqlite_schema
select * from sqlite_temp_master
select * from pg_catalog.pg_class
select * from pg_class
select * from pg_tables
select * from pg_attribute
select * from pg_catalog.pg_views
select * from pg_settings
select * from duckdb_tables
select * from duckdb_tables()
select * from duckdb_columns()
select * from duckdb_columns
select * from duckdb_views()
select * from duckdb_constraints()
select * from duckdb_indexes()
select * from duckdb_databases()
select * from duckdb_functions()
select * from duckdb_settings()
select * from duckdb_secrets()
select * from duckdb_extensions()
select * from duckdb_memory()
select * from duckdb_logs
select * from duckdb_logs()
select * from duckdb_variables()
select * from duckdb_temporary_files()
select * from duckdb_dependencies()
select * from duckdb_prepared_statements()
select * from duckdb_table_sample('orders')
select * from duckdb_external_file_cache()
select * from "duckdb_tables"()
select * from main.duckdb_tables()
select * from system.main.duckdb_tables()
select * from system.main.duckdb_tables
select * from pragma_table_info('audit')
select * from pragma_table_info('orders')
select * from pragma_storage_info('orders')
select * from pragma_show('audit')
select * from pragma_database_size()
select * from pragma_database_list
select * from pragma_metadata_info('{db}')
select * from pragma_version()
select * from pragma_user_agent()
select * from pragma_platform()
select * from pragma_collations()
select * from seq_scan('audit')
select * from test_all_types()
select 'audit'::regclass as c
select 'audit'::regclass::oid as c
select cast('audit' as regtype) as c
select 'orders'::regclass::varchar as c
select pg_get_viewdef(1) as c
select pg_get_viewdef((select 1)) as c
select pg_get_constraintdef(1) as c
select format_type(20, 1) as c
select get_block_size('{db}') as c
select has_table_privilege('audit', 'select') as c
select col_description('audit', 1) as c
select enum_range(null::audit) as c
select null::audit as c
select null::main.audit as c
select typeof(null::orders) as c
""",
    "functions that read tables by their names": """
select * from query('select * from orders')
select * from query('from audit')
select * from query_table('orders')
select * from query_table(['orders', 'audit'], true)
select * from json_execute_serialized_sql(json_serialize_sql('select * from orders'))
select * from histogram('orders', 'total')
select * from histogram_values('orders', total)
from query('select 1')
select json_serialize_plan('select * from orders')
select json_serialize_plan('select * from audit', optimize := true)
select json_serialize_plan('select card from orders where card > ''a''') as p
select json_deserialize_sql(json_serialize_sql('select * from audit')) as p
select * from leak()
select * from main.leak()
select * from leak() l
select leaked() as l
select main.leaked() as l
select {db}.main.leaked() as l
select LEAKED() as l
select "leaked"() as l
select relayed() as l
select list_transform([1], lambda x: leaked()) as l
select id from orders where total < leaked()
select nextval('numbers') as l
select currval('numbers') as l
select setval('numbers', 5) as l
select * from customers, leak()
select * from customers c, lateral (select leaked() as l)
select c.name, (select l from (select leaked() as l)) as n from customers c
select * from "leak"()
select getvariable('secret') as v
select current_query() as q
select current_query() as q from orders
""",
    "files": """
select * from '{dir}/secret.csv'
select * from "{dir}/secret.csv"
select * from '{dir}/*.csv'
select * from 'secret.csv'
select * from '{dir}/data/orders.parquet'
select * from '{dir}/data/*.parquet'
select * from read_parquet('{dir}/data/orders.parquet')
select * from parquet_metadata('{dir}/data/orders.parquet')
with x as (with "{dir}/data/orders.parquet" as (select 1) select 1) \
select * from "{dir}/data/orders.parquet"
with x as (select * from "{dir}/data/orders.parquet"), "{dir}/data/orders.parquet" as (select 1) \
select * from x
with "{dir}/data/orders.parquet" as (from "{dir}/data/orders.parquet") \
from "{dir}/data/orders.parquet" select *
with "{dir}/data/orders.parquet" as (from "{dir}/data/orders.parquet") \
select * from "{dir}/data/orders.parquet"
select * from '/etc/passwd'
select * from '/proc/self/environ'
select * from '{dir}/it.duckdb'
select * from 'file:{dir}/secret.csv'
select * from 's3://bucket/secret.parquet'
select * from 'https://localhost/secret.csv'
select * from read_csv('{dir}/secret.csv')
select * from read_csv_auto('{dir}/secret.csv')
select * from read_csv(['{dir}/secret.csv'])
select * from read_csv('/dev/stdin')
select * from READ_CSV('{dir}/secret.csv')
select * from "read_csv"('{dir}/secret.csv')
select * from main.read_csv('{dir}/secret.csv')
select * from system.main.read_csv('{dir}/secret.csv')
select * from read_text('{dir}/secret.csv')
select * from read_text('/proc/self/environ')
select * from read_text('/proc/self/maps')
select * from read_blob('{dir}/secret.csv')
select * from read_blob('{dir}/it.duckdb')
select * from read_json('{dir}/secret.csv')
select * from read_json_auto('{dir}/*')
select * from read_json_objects('{dir}/secret.csv')
select * from read_ndjson('{dir}/secret.csv')
select * from read_ndjson_objects('{dir}/secret.csv')
select * from read_parquet('{dir}/x.parquet')
select * from parquet_scan('{dir}/x.parquet')
select * from parquet_metadata('{dir}/x.parquet')
select * from parquet_schema('{dir}/x.parquet')
select * from parquet_kv_metadata('{dir}/x.parquet')
select * from read_duckdb('{dir}/it.duckdb')
select * from read_single_csv_file('{dir}/secret.csv')
select * from sniff_csv('{dir}/secret.csv')
select * from glob('{dir}/*')
select * from glob('/')
select * from read_csv('http://127.0.0.1:9/x.csv')
select * from read_xlsx('{dir}/x.xlsx')
select * from sqlite_scan('{dir}/x.db', 't')
select * from postgres_scan('host=127.0.0.1', 'public', 't')
select * from python_map_function('x')
select * from pandas_scan(1)
select * from arrow_scan(1, 1, 1)
select * from which_secret('s3://x', 's3')
select (select content from read_text('{dir}/secret.csv')) as c
select * from customers where name in (select content from read_text('{dir}/secret.csv'))
select * from customers c, lateral read_text('{dir}/' || c.name)
select * from (copy orders to '{dir}/out.csv')
""",
    "statements that are no queries": """
copy orders to '{dir}/out.csv'
copy (select * from audit) to '/dev/stdout'
export database '{dir}/out'
import database '{dir}/out'
attach '{dir}/it.duckdb' as other
detach {db}
install httpfs
load httpfs
force install httpfs
pragma database_list
pragma table_info('audit')
pragma enable_external_access
set enable_external_access = true
set global memory_limit = '99GB'
reset lock_configuration
call duckdb_tables()
call pragma_table_info('audit')
create table x as select * from audit
create or replace view customers as select * from audit
create macro y() as 1
create temp table x (id integer)
create secret s (type s3)
alter table orders drop column card
drop table audit
delete from orders
insert into orders values (9, 9, 9, 'x', 'y', 'z')
update orders set status = 'sent'
merge into orders using customers on false when matched then delete
truncate orders
vacuum
analyze
checkpoint
force checkpoint
begin
commit
use memory
prepare q as select * from audit
execute q
deallocate q
comment on table orders is 'x'
set variable secret = 1
select 1; select * from audit
select 1;; select * from audit
select 1; set enable_external_access = true
select * from customers; attach ':memory:' as x
select 1 /* ; */; drop table audit
with x as (select 1) delete from orders
with x as (select 1) insert into customers select * from audit
from orders
from audit select *
select 1 into outfile 'x'
select * into x from audit
""",
    "settings and the environment": """
select current_setting('memory_limit') as s
select current_setting('temp_directory') as s
select current_setting('allowed_paths') as s
select current_setting('home_directory') as s
select pg_catalog.current_setting('search_path') as s
select getenv('HOME') as s
select getenv('PATH') as s
select current_schemas(true) as s
select in_search_path('{db}', 'main') as s
select write_log('SECRET') as s
select pg_sleep(0.01) as s
select sleep_ms(10) as s
select setseed(0.5) as s
select parse_path(current_setting('secret_directory')) as s
select * from (select current_setting('extension_directory') as s)
""",
    "errors that tell values": """
select error(card) from orders
select error(o::varchar) from orders o
select error(line) from audit
select error((select max(line) from audit)) as e
select case when status = 'draft' then error(total::varchar) else total end as e from orders
select id from orders where case when total > 1000 then error(total::varchar) else true end
select id from orders where 1 / (total - 6666) is not null
select id from orders where cast(status || total as integer) > 0 or true
select id from orders where total::tinyint > 0
select id from orders where (total * 2147483)::integer > 0
select id from orders where cast(status as enum('sent', '10%')) is not null
select id from orders where strptime(status, '%Y') is null
select id from orders where json_valid(status) or status::json is not null
select id from orders where regexp_matches('x', status) or status = 'draft'
select id from orders where list_extract([1], total) is null
select id from orders where assert_true(total < 1000) is null
select id from orders where (select 1 where total < 1000) = 1
select id from orders where (select c.id from customers c where orders.total > 1000) is null
select id from orders order by 1 / (total - 6666)
select id from orders group by id, 1 // (total - 6666)
select sum(1 / (total - 6666)) as n from orders
select id, sum(1 // (total - 9999)) over () as n from orders
select c.id from customers c join orders o on o.total::tinyint > 0
select id from orders limit (select case when max(total) > 1000 then error('seen') else 5 end from \
orders)
select total from orders where total > 1000 and error('seen') is null
select total from (select total, error(status) as e from orders where status = 'draft')
select try(error(card)) as e from orders
select try(total::tinyint) as e from orders
select try_cast(card as integer) as e from orders
select id from orders where total = 5 and sleep_ms(1) is null
""",
    "parameters": """
select * from read_csv(:p) || {dir}/secret.csv
select * from read_text(:p) || {dir}/secret.csv
select * from glob(:p) || {dir}/*
select * from query_table(:p) || orders
select * from query(:p) || select * from audit
select * from :p || audit
select * from main.:p || audit
select * from (:p) || audit
select columns(:p) from orders || card|mail
select columns(:p) from orders || .*
select json_serialize_plan(:p) as x || select * from audit
select current_setting(:p) as x || allowed_paths
select id from orders order by :p || card
select id from orders where status = :p || draft
select id from orders where status = :p || ' or true or status = '
select id from orders where status like :p || %
select id from orders where :p || 1=1) or (1=1
select :p as x from orders || card
select :p as x || '; select * from audit --
select (:p)::regclass as x || audit
select struct_extract(o, :p) as x from orders o || card
select id from orders limit cast(:p as integer) || 99
select total from orders where regexp_matches(status, :p) || ^d
select total from orders where error(:p) is null || x
select error(:p || status) as x from orders || x
select * from pragma_table_info(:p) || audit
select * from customers where name = :p || Ann'; drop table orders; --
select * from customers where name = :p || \u0000
select * from customers where name = :p || \ud800
""",
}


_DEEP_AND_LONG: Final[Sequence[str]] = (
    f"select {'(' * 3000}1{')' * 3000} as n",
    f"select {'(select ' * 500}max(total) from orders{')' * 500} as n",
    f"select * from {'(select * from ' * 300}orders{')' * 300}",
    f"select * from {'(' * 200}audit{')' * 200}",
    f"select {' + '.join(['1'] * 5_000)} as n from audit",
    f"select {'not ' * 5000} true as n from audit",
    f"select {'- ' * 5000}1 as n from audit",
    f"select {'[' * 2000}1{']' * 2000} as n",
    f"select {'case when true then ' * 500} card {'end ' * 500} as n from orders",
    f"select {', '.join(f'{n} as c{n}' for n in range(1000))}, card from orders",
    f"select id from orders where id in ({', '.join(map(str, range(5_000)))}) or card > ''",
    f"select '{'x' * 1_000_000}' as n, card from orders",
    f"select 1 /* {'x' * 1_000_000} */ as n, line from audit",
    f"select 1 {'/*' * 2000} x {'*/' * 2000} as n, line from audit",
    f"with x0 as (select * from orders), "
    f"{', '.join(f'x{n} as (select * from x{n - 1})' for n in range(1, 200))} select * from x199",
    " union all ".join(["select total from orders"] * 500),
    f'select * from "{"x" * 100_000}"',
    f"select * from {'main.' * 500}orders",
    f"select {'x.' * 200}x from orders",
)


def attacks() -> Sequence[Attack]:
    """Return all statements."""
    found: list[Attack] = []
    for idea, text in _TEXTS.items():
        for line in filter(None, text.split("\n")):
            sql, _, value = line.partition(" || ") if idea == "parameters" else (line, "", None)
            found.append(Attack(idea, sql, value))
    return [*found, *(Attack("deep and long", sql, None) for sql in _DEEP_AND_LONG)]
