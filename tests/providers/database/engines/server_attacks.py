"""Statements that try to read what a policy hides from callers' SQL on PostgreSQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

PLACES: Final[Sequence[str]] = (
    "select * from {0}",
    "select count(*) from {0}",
    "select 1 from orders where exists (select 1 from {0})",
    "select (select count(*) from {0}) from orders",
    "select 1 union all select count(*) from {0}",
    "with x as (select * from {0}) select count(*) from x",
    "select 1 from orders join {0} on 1 = 1",
)

SOURCES: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": (
        "secrets",
        '"secrets"',
        "public.secrets",
        "public.orders",
        '"public"."orders"',
        "public . orders",
        "public/**/.orders",
        "only orders_of_2025",
        '"~key"',
        '"~policy"',
        "pg_class",
        "PG_CATALOG.pg_class",
        '"pg_catalog"."pg_class"',
        "pg_views",
        "pg_stats",
        "pg_roles",
        "pg_settings",
        "pg_stat_activity",
        "pg_largeobject",
        "pg_proc",
        "pg_description",
        "information_schema.columns",
        '"information_schema"."views"',
        "information_schema.table_privileges",
        "dblink('dbname=postgres', 'select 1') as t (a int)",
        "pg_ls_dir('/') t",
        "pg_read_file('/etc/passwd') t",
        "secrets_of(1)",
        "public.secrets_of(1)",
        "generate_subscripts(array[1], 1)",
        "query_to_xml('select 1', true, true, '') t",
        "rows from (pg_ls_dir('/')) t",
        "lateral pg_show_all_settings() t",
        "leak",
        "counter",
    ),
    "mariadb": (
        "secrets",
        "`secrets`",
        "{db}.secrets",
        "{db}.orders",
        "`{db}`.`orders`",
        "{db} . orders",
        "{db}/**/.orders",
        "`~key`",
        "`~policy`",
        "mysql.user",
        "`mysql`.`user`",
        "mysql.db",
        "information_schema.tables",
        "INFORMATION_SCHEMA.COLUMNS",
        "`information_schema`.`views`",
        "information_schema . schemata",
        "information_schema.processlist",
        "information_schema.user_privileges",
        "information_schema.global_variables",
        "performance_schema.threads",
        "sys.version",
        "leak",
        "counter",
        "secrets_of(1)",
        "json_table('[1]', '$[*]' columns (a int path '$')) t, secrets",
        "dual, secrets",
    ),
}
"""What does not exist for callers, in the place of a table."""

_SHARED: Final = """
select card from orders
select orders.card from orders
select o.card from orders o
select id from orders order by card
select id from orders group by id having max(card) > ''
select max(card) from orders
select count(distinct card) from orders
select row_number() over (order by card) from orders
select id from orders where (select card) is not null
select a.id from orders a join orders b on a.card = b.card
select a.id from orders a join orders b using (card)
select * from orders natural join secrets
select case when card > 'a' then 1 end from orders
select x.card from (select * from orders) x
with orders as (select card from orders) select * from orders
with t as (select card from orders) select * from t
with recursive t as (select card from orders union select 'x') select * from t
select count(*) from orders
select max(id), min(id), sum(price), avg(price) from orders
select * from orders where true or true
select * from orders where status = 'draft'
select * from orders where id = 2
select * from orders) where 1 = 1 or (1 = 1
select * from orders --
select id from orders where 100 / price > 0
select id from orders where 100 / (price - 7) > 0
select id from orders where case when status = 'draft' then 1 / (price - price) else 1 end > 0
select id from orders order by 100 / (price - 7)
select 100 / (price - 7), count(*) from orders group by 100 / (price - 7)
select a.id from orders a join orders b on 100 / (b.price - 7) > 0
select a.id from orders a left join orders b on 100 / (b.price - 7) = a.price
select id from orders where price in (select 100 / (price - 7) from orders)
select count(*) from orders where 100 / (price - 7) > 0
select id from orders where exists (select 100 / (o.price - 7) from orders o where o.id = orders.id)
select id from orders where coalesce(100 / (price - 7), 1) > 0
select id from orders where nullif(price, 7) is null
select id from orders where substring(doc, 1, 1) = 'n'
select id from orders where doc like 'no%'
select id from orders except select id from orders where price = 7
select id from orders intersect select id from orders where doc is not null
select status, count(*) from orders group by status
select lag(id) over (order by id), lead(id) over (order by id) from orders
select ntile(3) over (order by id) from orders
select id, id - lag(id) over (order by id) from orders
select mail, pin, phone from orders
select id from orders where mail = 'a@example.org'
select id from orders where phone = '5550001234'
select id from orders where phone like '555%'
select id from orders where phone > '5' order by phone
select id from orders order by pin, phone, mail
select phone, count(*) from orders group by phone
select count(distinct phone), count(distinct mail), count(distinct pin) from orders
select max(phone), min(phone) from orders
select length(phone), md5(pin), upper(mail) from orders
select substring(phone, 1, 3) from orders
select concat(phone, mail, pin) from orders
select a.id, b.id from orders a join orders b on a.phone = b.phone
select a.id from orders a join orders b using (pin)
select id from orders where phone in ('5550001234', '5559991234')
select id from orders where phone between '5' and '6'
select rank() over (order by phone) from orders
select first_value(phone) over (order by id) from orders
select nullif(phone, '5550001234') from orders
select case when phone = '5550001234' then 1 else 0 end from orders
select id from orders where (phone, pin) = ('5550001234', '1111')
select greatest(phone, '5'), least(mail, 'z') from orders
select count(*) from orders where pin = mail
insert into orders values (1)
update orders set id = 1
delete from orders
with x as (select 1) delete from orders
drop table orders
create table x (a int)
create temporary table x as select * from orders
create view x as select 1
alter table orders add x int
truncate orders
grant select on orders to public
begin
commit
rollback
set search_path = public
set sql_mode = ''
lock tables orders read
prepare x from 'select 1'
prepare x as select 1
execute x
deallocate x
explain select * from orders
analyze table orders
explain analyze select * from orders
show tables
describe orders
use mysql
call secrets_of(1)
do 1
do $$ begin end $$
copy orders to stdout
copy (select 1) to program 'id'
load data infile '/etc/passwd' into table orders
handler orders open
kill 1
set role postgres
set session authorization postgres
reset all
discard all
listen x
notify x
vacuum
reindex table orders
refresh materialized view x
declare x cursor for select 1
fetch all from x
select 1; select 2
select 1; drop table orders
select 1;; select card from orders
select 1) union select (card from orders
) select (
((((((((((((((((((((((((((((((select 1))))))))))))))))))))))))))))))
values (1), ((select max(card) from orders))
table secrets
select * from orders for update
select * from orders for share
select * from orders for no key update
select * from orders lock in share mode
select 1 into x
select * into x from orders
select current_user
select session_user
select user
select current_user()
select user()
select version()
select database()
select connection_id()
select nosuch(1)
select orders.nosuch(1) from orders
select secrets_of(1)
select public.secrets_of(1)
select "secrets_of"(1)
select `secrets_of`(1)
select sum(sum(id)) from orders
select id, sum(sum(id)) over () from orders
select 1 where 1 = (select id from orders)
select 10 / 0
"""

_OWN: Final[Mapping[str, str]] = {
    "postgresql": """
select orders from orders
select (orders).card from orders
select (orders.*)::text from orders
select to_json(orders) from orders
select row_to_json(o) from orders o
select o.ctid from orders o
select xmin, xmax, tableoid from orders
select tableoid::regclass from orders
select 'secrets'::regclass
select cast('secrets' as regclass)
select regclass 'secrets'
select 'secrets'::"regclass"
select 'secrets'::pg_catalog.regclass
select 'secrets'::regClass::oid
select 'secrets_of'::regproc
select 'postgres'::regrole
select 'public'::regnamespace
select to_regclass('secrets')
select pg_sleep(1)
select "pg_sleep"(1)
select pg_catalog.pg_sleep(1)
select distinct on (id) pg_sleep(1) from orders
select distinct on (id) lo_get(1) from orders
select (select 1) lo_get(1)
select 1 as lo_get(1)
select lo_import('/etc/passwd')
select lo_get(16384)
select lo_creat(-1)
select nextval('counter')
select currval('counter')
select setval('counter', 9)
select set_config('search_path', 'public', false)
select current_setting('search_path')
select current_schema
select current_schema()
select current_schemas(true)
select current_catalog
select current_database()
select current_role
select inet_server_addr()
select has_table_privilege('secrets', 'select')
select has_column_privilege('orders', 'card', 'select')
select pg_get_viewdef('orders'::regclass)
select pg_get_viewdef(16384)
select obj_description(16384)
select col_description(16384, 1)
select pg_relation_size('secrets')
select pg_column_size(orders) from orders
select pg_typeof(card) from orders
select format('%s', card) from orders
select query_to_xml('select * from public.secrets', true, true, '')
select table_to_xml('secrets', true, true, '')
select database_to_xml(true, true, '')
select schema_to_xml('public', true, true, '')
select cursor_to_xml('x', 1, true, true, '')
select xpath('/a', '<a/>')
select ts_stat('select card from orders')
select txid_current()
select pg_advisory_lock(1)
select pg_notify('x', 'y')
select pg_terminate_backend(1)
select pg_reload_conf()
select pg_read_file('/etc/passwd')
select dblink_connect('dbname=postgres')
select crypt('a', 'b')
select U&"\\0073ecrets" from orders
select * from U&"secrets"
select * from U&'secrets'
select $$a$$ from secrets
select $1
select E'\\'' from secrets --'
select '\\' from secrets --'
select 'a' /* ' */ from secrets -- '
select /* /* */ 1 from orders */ 1
select 1 operator(pg_catalog.+) 1
select 1 operator(public.+) 1
select id from orders tablesample system (100)
select * from orders order by (select count(*) from orders)
select id from orders limit (select length(card) from orders)
select count(*) filter (where 100 / (price - 7) > 0) from orders
select id from orders where doc::json is not null
select id from orders where doc::json ->> 'a' = '1'
select id from orders where doc::int > 0
select id from orders where (doc || '')::date is not null
select id from orders where cast(mail as int) = 1
select id from orders where doc ~ '^no'
select id from orders where jsonb_typeof(doc::jsonb) is not null
select id from orders where exists (select 1 from json_each(orders.doc::json))
select id from orders where price::smallint > 0
select id from orders where price * 2147483647 > 0
select id from orders where sqrt(price) > 0
select id from orders where ln(price) > 0
select id from orders where to_date(doc, 'YYYY') is not null
select id from orders where to_timestamp(doc, 'YYYY') is not null
select id from orders where chr(price) is not null
select id from orders where decode(doc, 'hex') is not null
select id from orders where array_length(string_to_array(doc, ','), price) > 0
select json_agg(orders) from orders
select string_agg(mail, ',' order by id) from orders
select array_agg(phone order by id) from orders
select percentile_cont(0.5) within group (order by price) from orders
select mode() within group (order by pin) from orders
select id from orders group by grouping sets ((id), ())
select id from orders group by rollup (id)
select * from orders o(a, b)
select * from (values (1, 2)) t(a, b)
select * from orders as o (card) limit 1
with w(card) as (select 1) select card from w
with w as materialized (select * from orders) select count(*) from w
with w as not materialized (select * from orders) select count(*) from w where 100 / (price - 7) > 0
with w as (insert into orders values (1) returning *) select * from w
with w as (update orders set id = 1 returning *) select * from w
with w as (delete from orders returning *) select * from w
select * from orders o, lateral (select o.card) x
select * from orders o cross join lateral (select 100 / (o.price - 7)) x
select any_value(card) from orders
select * from orders where current_user = 'x'
select * from json_to_record('{"a": 1}') as x (a int)
select * from unnest(array[1, 2]) with ordinality
select * from generate_series(1, 3)
select mail from orders fetch first 1 row only
select sha256(convert_to(phone, 'UTF8')) from orders
select encode(sha256(mail::bytea), 'hex') from orders
select ('a row of more than 16 MB' || doc)::int from orders
select 1::money
select 1::"char"
select array[card] from orders
select xmlelement(name x, card) from orders
select * from xmltable('/a' passing '<a/>' columns x text)
select extract(epoch from now()) > 0
select now() > '2020-01-01'
select date_trunc('nosuch', now())
select localtimestamp > '2020-01-01'
merge into orders using orders o on true when matched then delete
select "secrets"."a" from orders
select secrets.a from orders
select ordres.id from orders
""",
    "mariadb": """
select @@version
select @@global.datadir
select @a
select @a := 1
select @a := card from orders
select sleep(1)
select SLEEP (1)
select benchmark(1000000000, md5('x'))
select get_lock('x', 1)
select release_lock('x')
select is_free_lock('x')
select load_file('/etc/passwd')
select 1 into outfile '/tmp/x'
select 1 into dumpfile '/tmp/x'
select 1 into @a
select * from orders into outfile '/tmp/x'
select * from orders procedure analyse()
select * from orders for system_time all
select * from orders for system_time as of now()
select * from orders partition (p0)
select * from orders use index (x)
select * from orders ignore index (primary)
select sql_calc_found_rows * from orders
select found_rows()
select row_count()
select last_insert_id()
select uuid()
select uuid_short()
select next value for counter
select nextval(counter)
select previous value for counter
select lastval(counter)
select setval(counter, 9)
select /*! card */ from orders
select /*!50000 card */ 1 from orders
select /*M! card */ 1 from orders
select /*+ max_execution_time(1) */ 1 from orders
select 1 # from secrets
select 1 -- from secrets
select 1 --from secrets
select 'a\\'' from secrets -- '
select 'a' 'b' from secrets
select "a\\"" from secrets -- "
select "card" from orders
select `card` from orders
select orders.`card` from orders
select {d '2026-01-01'}
select {x card} from orders
select name_const('card', 1)
select extractvalue('<a/>', concat('/', card)) from orders
select updatexml('<a/>', '/a', card) from orders
select extractvalue('<a/>', concat('$', mail)) from orders
select password('x')
select encrypt('x')
select aes_encrypt('x', 'y')
select des_encrypt('x')
select master_pos_wait('x', 1)
select collation(card) from orders
select charset(mail) from orders
select coercibility(mail) from orders
select column_json(card) from orders
select column_get('x', 1 as int)
select xor_agg(1)
select values(card) from orders
select default(card) from orders
select default(status) from orders
select match(doc) against ('no') from orders
select id from orders where doc regexp '^no'
select id from orders where doc rlike '^no'
select id from orders where doc sounds like 'no'
select id from orders where json_extract(doc, '$.a') = 1
select id from orders where json_value(doc, '$.a') is not null
select id from orders where json_valid(doc) = 0
select id from orders where exp(price * 1000) > 0
select id from orders where price * 9223372036854775807 > 0
select id from orders where cot(price - 7) > 0
select id from orders where (select price from orders o where o.id <> orders.id) > 0
select id from orders where row(1, 2) = (select id, price from orders)
select id from orders where inet6_aton(doc) is not null
select id from orders where str_to_date(doc, '%Y') is not null
select id from orders where cast(doc as decimal) > 0
select id from orders where convert(doc, signed) > 0
select id from orders where mail = 0
select id from orders where binary phone = '5550001234'
select id from orders where phone collate utf8mb4_bin = '5550001234'
select id from orders order by id limit 1 offset 1
select straight_join id from orders
select distinctrow status from orders
select group_concat(mail order by id separator ',') from orders
select group_concat(id, phone) from orders
select json_arrayagg(phone) from orders
select json_objectagg(id, pin) from orders
select hex(phone), ascii(phone), ord(pin) from orders
select sha2(phone, 256), sha1(mail), crc32(pin) from orders
select convert(phone using latin1) from orders
select cast(phone as binary), cast(pin as char(3)) from orders
select phone + 0, - phone, phone * 1 from orders
select id from orders group by id with rollup
select id from orders where exists (select 1 from orders having 100 / (max(price) - 7) > 0)
select * from orders o cross join orders p on 100 / (o.price - 7) > 0
with w as (select * from orders) select count(*) from w where json_extract(doc, '$.a') > 0
with recursive w as (select 1 as n union all select n + 1 from w where n < 4) select n from w
select * from json_table('[{"a": 1}]', '$[*]' columns (a int path '$.a')) t
select * from json_table((select doc from orders limit 1), '$' columns (a int path '$.a')) t
select median(price) over (partition by status) from orders
select now() > '2020-01-01'
select format(price, 2) from orders
select if(card, 1, 2) from orders
select ifnull(card, 1) from orders
select secrets.a from orders
select ordres.id from orders
select `{db}`.orders.id from orders
select {db}.secrets_of(1)
select `{db}`.`secrets_of`(1)
help 'select'
xa begin 'x'
start transaction
install plugin x soname 'y'
flush tables
reset query cache
purge binary logs to 'x'
change master to master_host = 'x'
show create view orders
show grants
show variables
show columns from orders
check table orders
checksum table orders
cache index orders in x
execute immediate 'select 1'
signal sqlstate '45000'
get diagnostics @a = number
begin not atomic select 1; end
select 1 union select card from orders into outfile '/tmp/x'
select 1 limit 1 procedure analyse()
select mid(version(), 1, 1)
select char(1 using utf8mb4)
""",
}

_LONG_NAME: Final = "a" * 63
EVASIONS: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": (
        "select E'\\\\' -- '\n || pg_sleep(9)",
        "select e'a' -- c\n 'b\\\\'' || pg_sleep(9) --'",
        "select E'a\\'b' || current_setting('server_version') -- '",
        "select U&'\\\\0073' || current_user",
        "select 'a'\n'b' || current_user",
        "select (1) operator(+) pg_sleep(9)",
        "select (1) operator(pg_catalog.+) length(current_setting('server_version'))",
        "select * from pg_ls_dir('.') as materialized (values)",
        "with pg_sleep as materialized (select 9) select pg_sleep(9) from pg_sleep",
        "select ('server_version'::text).current_setting",
        "select (select 'server_version'::text as f).current_setting",
        "select x.pg_sleep from generate_series(9, 9) x",
        "select x.current_setting from unnest(array['server_version']) x",
        "select x.current_setting from unnest(array['server_version']) x(y)",
        "select current_setting.current_setting from unnest(array['server_version'])"
        " current_setting(y)",
        "select current_setting.current_setting"
        " from json_array_elements_text('[\"server_version\"]') current_setting",
        "select unnest.current_setting from unnest(array['server_version'])",
        "select (select unnest.current_setting from unnest(array['server_version']))"
        " from (select 1 as current_setting) unnest",
        "select (select s.v from (select 'y' as current_setting) x,"
        " (select x.current_setting as v) s) from unnest(array['server_version']) x",
        f"select (select \"{_LONG_NAME}1\".current_setting from unnest(array['server_version'])"
        f' as "{_LONG_NAME}2") from (select 1 as current_setting) as "{_LONG_NAME}1"',
        "select x.current_setting from rows from (unnest(array['server_version'])) x",
        "select \"text\".current_setting from cast('server_version' as text)",
        "select o.current_setting from orders o",
        "select (o).status.current_setting from orders o",
        "select (array['server_version'])[1].current_setting",
        "select 'orders'::_regclass",
        "select '{secrets}'::_regclass",
        "select '{secrets}'::regclass[]",
        "select '16384'::oid::regclass",
        "select 'english'::regconfig",
        "select 'x=r/postgres'::aclitem",
        "select null::secrets",
        "select null::public.secrets",
        "select '(a,b)'::secrets",
        "select row('a', 'b')::secrets",
        "select (null::pg_class).relname",
        "select null::pg_stat_activity",
        'select cast(null as "secrets")',
        "select '{}'::secrets[]",
        "select cast('secrets' as \"regclass\")",
        "select json_populate_record(null::secrets, '{}')",
        "select * from json_to_recordset('[]') as x(a secrets)",
        "select xpath('/a', '<a/>'::xml)",
        "select query_to_xml('select 1', true, true, '')",
        "select repeat('x', 1000000000)",
        "select lpad('x', 1000000000)",
        "select lpad('x', 1000 * 1000)",
        "select rpad('x', (select 1000000000))",
        "select dblink('dbname=postgres', 'select 1')",
        "select lo_export(1, '/tmp/x')",
        "select lo_from_bytea(0, 'x')",
        "select pg_stat_get_activity(null)",
        "select pg_current_xact_id()",
        "select * from pg_stat_activity",
        "select set_config('role', 'postgres', true)",
        "select currval('counter'), lastval()",
        "select 1 as x from orders for update skip locked",
        "select 'a' similar to 'b' escape current_user",
        'select "~0"',
    ),
    "mariadb": (
        "select * from orders limit rows examined 5",
        "select * from orders limit 1 rows examined 5",
        "select 5. lock in share mode",
        "select 1 from orders limit 5. lock in share mode",
        "select sleep(9)",
        "select `sleep`(9)",
        "select sleep (9)",
        "select sleep/**/(9)",
        "select -- \nsleep(9)",
        "select benchmark(1000000000, md5('x'))",
        "select get_lock('x', 9)",
        "select load_file('/etc/passwd')",
        "select @x := 1",
        "select @@datadir",
        "select @`x`",
        "select 1 <@ `x`",
        "select * from orders where id = @x",
        "select 1 into outfile '/tmp/x'",
        "select id into outfile '/tmp/x' from orders",
        "select id from orders union select 1 into outfile '/tmp/x'",
        "select id from orders into @x",
        "select * from sys.session",
        "select * from performance_schema.accounts",
        "select * from information_schema.processlist",
        "select {fn sleep(9)}",
        "select {d (select user())}",
        "select _utf8'a'",
        "select _binary user()",
        "select N'a' from secrets",
        "select uuid()",
        "select uuid () from orders",
        "select sys_guid()",
        "select user()",
        "select current_user",
        "select schema()",
        "select repeat('x', 1000000000)",
        "select space(1000000000)",
        "select lpad('x', 1000000000, 'y')",
        "select secrets_of(1)",
        "select `{db}`.secrets_of(1)",
        "select {db}.`secrets_of`(1)",
        "select id from orders procedure analyse(10, 10)",
        "select id from orders for system_time as of timestamp '2020-01-01'",
        "select id from {db}_sql.orders",
        "select {db}_sql.orders.id from orders",
        "select * from `~policy`",
        "select `~0`",
        "select * from json_table('[1]', '$[*]' columns (a int path '$')) t",
        "with recursive sleep as (select 9) select sleep(9) from sleep",
    ),
}
"""Ways past a check of names, and functions that tell or cost too much: each is refused."""

COSTLY: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": (
        "select count(*) from generate_series(1, 2000000000)",
        "select count(*) from generate_series(1, 9000000000)",
        "select sum(a.i * b.i) from generate_series(1, 1000000) a(i), generate_series(1, 1000000)"
        " b(i)",
        "select string_agg(md5(i::text), '') from generate_series(1, 100000000) i",
        "with recursive n(s) as (select 'a' union all select s || s from n) select length(s)"
        " from n",
        "with recursive n(i, s) as (select 1, 'aaaaaaaaaa' union all select i + 1, s || s from n"
        " where i < 24) select s from n",
        "with recursive n(i, s) as (select 1, 'aaaaaaaaaa' union all select i + 1, s || s from n"
        " where i < 20) select s, g from n, generate_series(1, 1000) g where i = 20",
        "select 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' ~ '(a*)*(a*)*(a*)*(a*)*(a*)*b'",
    ),
    "mariadb": (
        "with recursive n as (select 1 as i union all select i + 1 from n) select count(*) from n",
        "with recursive n as (select 1 as i, cast('aaaaaaaaaa' as char(16000000)) as s union all"
        " select i + 1, concat(s, s) from n where i < 20) select i, s from n",
        "select 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' regexp '(a*)*(a*)*(a*)*(a*)*(a*)*b'",
    ),
}
"""Statements that take long, or much memory."""

_LONG: Final = "replace(lpad('', 600, 'a'), 'a', lpad('', 1000, 'a'))"
_SOUGHT: Final = "concat(replace(lpad('', 50, 'a'), 'a', lpad('', 1000, 'a')), 'b')"
_SOUGHT_BACKWARDS: Final = f"concat('b', {_SOUGHT})"
SEARCHES: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": (
        f"select strpos({_LONG}, {_SOUGHT_BACKWARDS})",
        f"select position({_SOUGHT_BACKWARDS} in {_LONG})",
        f"select length(split_part(s, t, 1)) from (select {_LONG} s, {_SOUGHT_BACKWARDS} t) x",
        f"with x as (select {_LONG} s, {_SOUGHT} t) select s like '%' || t || '%' from x",
        f"select {_LONG} ilike any(array['%' || {_SOUGHT} || '%'])",
        f"select length(translate(left({_LONG}, 100000), replace({_SOUGHT}, 'a', 'c'), ''))",
    ),
    "mariadb": (
        f"select locate({_SOUGHT}, {_LONG})",
        f"select position({_SOUGHT} in {_LONG}), instr({_LONG}, {_SOUGHT})",
        f"select length(replace({_LONG}, {_SOUGHT}, ''))",
        f"select length(substring_index(s, t, 1)) from (select {_LONG} s, {_SOUGHT} t) x",
        f"with x as (select {_LONG} s, {_SOUGHT} t) select s like concat('%', t, '%') from x",
    ),
}
"""Searches that no server stops, and that would take a minute."""

_ANYWHERE: Final[Sequence[str]] = (
    f"select '{'x' * 90_000}'",
    f"select '{'x' * 19_000}'",
    f"select {', '.join(['1'] * 10_000)}",
    f"select {', '.join(['1'] * 1_500)}",
    f"select {'(' * 3000}1{')' * 3000}",
    f"select {'1+' * 9_000}1",
    "select " + " union all select ".join(["1"] * 600),
    f"select count(*) from {', '.join(f'orders o{place}' for place in range(60))}",
    f"select {'case when 1 = 1 then ' * 150}1{' end' * 150}",
    "select " + "-" * 50_000 + "\n1",
)


def refused(engine: str, database: str) -> Iterator[str]:
    """Yield statements that are refused."""
    for source, place in product(SOURCES[engine], PLACES):
        yield place.format(source.replace("{db}", database))
    for statement in EVASIONS[engine]:
        yield statement.replace("{db}", database)


def statements(engine: str, database: str) -> Iterator[str]:
    """Yield statements whose answers are the same in both worlds."""
    for text in (_SHARED, _OWN[engine]):
        yield from text.replace("{db}", database).strip().splitlines()


def costly(engine: str) -> Iterator[str]:
    """Yield statements that take long, or much memory."""
    yield from COSTLY[engine]
    yield from _ANYWHERE
