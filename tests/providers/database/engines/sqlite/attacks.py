"""Statements that try to read what a policy hides from SQL of callers, by the idea behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

SOURCES: Final[Sequence[str]] = (
    "secrets",
    '"secrets"',
    "[SECRETS]",
    "`Secrets`",
    "'secrets'",
    "main.orders",
    "main.secrets",
    "temp.secrets",
    "temp . secrets",
    "/**/secrets--\n",
    "file.orders",
    "sqlite_master",
    "main.sqlite_master",
    "temp.sqlite_master",
    "sqlite_schema",
    "temp.sqlite_temp_schema",
    '"sqlite_temp_master"',
    "sqlite_sequence",
    "SQLITE_STAT1",
    "sqlite_dbpage",
    "dbstat",
    "notes_content",
    "notes_data",
    "temp.notes_idx",
    "pragma_table_info('orders')",
    "pragma_table_xinfo('secrets')",
    "pragma_table_list",
    "pragma_database_list",
    "pragma_function_list",
    "pragma_index_list('orders')",
    "pragma_foreign_key_list('secrets')",
    "leak",
    "fts5vocab('main', 'notes', 'row')",
    "generate_series(1, 2)",
    "readfile('/etc/passwd')",
    "bytecode('select * from orders')",
    "tables_used('select * from orders')",
)
"""What does not exist for callers, in the place of a table."""

PLACES: Final[Sequence[str]] = (
    "select * from {0}",
    "select count(*) from {0}",
    "select 1 from orders where exists (select 1 from {0})",
    "select (select count(*) from {0}) from orders",
    "select 1 union all select count(*) from {0}",
    "with x as (select * from {0}) select count(*) from x",
    "select 1 from orders join {0} on 1",
    "select 1 from {0}, nothing",
)

_TEXTS: Final[Mapping[str, str]] = {
    "hidden columns": """
select card from orders
select orders.card from orders
select "card" from orders where "card" > 'a'
select [CARD] from orders o
select o.card from orders o
select main.orders.card from orders
select id from orders order by card
select id from orders group by card
select id from orders group by 1 having max(card) > ''
select max(card) from orders
select count(distinct card) from orders
select row_number() over (order by card) from orders
select sum(id) over (partition by card) from orders
select id from orders where (select card) is not null
select a.id from orders a join orders b on a.card = b.card
select a.id from orders a join orders b using (card)
select * from orders natural join (select 'X1' as card)
select * from orders natural join secrets
select orders from orders
select json_object('card', card) from orders
select case when card > 'a' then 1 end from orders
select id from orders limit (select length(card) from orders)
select x.card from (select * from orders) x
with orders as (select card from orders) select * from orders
with orders(card) as (select 1) select card from orders
with t as (select card from main.orders) select * from t
with orders as (select card from main.orders) select * from orders
with recursive orders as (select card from main.orders union select 1) select * from orders
with open_orders as (select card from main.orders) select * from open_orders
with v as (select 1) select (with v as (select card from orders) select * from v)
""",
    "hidden rows": """
select count(*) from orders
select max(id), min(id), total(price), avg(price) from orders
select rowid from orders
select _rowid_, oid from orders
select * from orders where 1 or 1
select * from orders where status = 'draft'
select * from orders where id = 2
select * from orders limit -1
select * from orders) where 1 or (1
select * from orders --
select * from orders order by (select count(*) from orders)
select id from orders where json(doc) is not null
select id from orders where json_extract(doc, '$.a') > 0
select id from orders where abs(price) > 0
select id from orders where abs(id - 9223372036854775807 - 1) > 0
select id from orders where id + 9223372036854775807 > 0
select sum(price * 9000000000000000000) from orders
select id from orders order by json(doc)
select id from orders group by json(doc)
select a.id from orders a join orders b on json(b.doc) is not null
select a.id from orders a left join orders b on json(b.doc) = a.doc
select id from orders where price in (select json(doc) from orders)
select id from orders where (select json(doc)) is not null
select count(*) filter (where json(doc) is not null) from orders
select id from orders where exists (select json(doc) from orders o where o.id = orders.id)
select id from orders where doc -> '$' is not null
select id from orders where json_array_length(doc) > 0
select value from orders, json_each(orders.doc)
select key from orders, json_tree(orders.doc)
select id from orders where unistr(doc) is not null
select id from orders where doc like doc escape doc
select id from orders where substr(doc, 1, 1) = 'n'
select id from orders where likelihood(json(doc) is null, 0.5)
select id from orders where unlikely(json(doc) is null)
select id from orders where iif(json(doc) is null, 1, 0)
select id from orders where coalesce(json(doc), 1)
select id from orders except select id from orders where json(doc) is null
select id from orders intersect select id from orders where json(doc) is not null
select id from orders indexed by orders_status
select id from orders not indexed
select id from orders where rowid = 2
select status, count(*) from orders group by status
select lag(id) over (order by id), lead(id) over (order by id) from orders
select ntile(3) over (order by id) from orders
select id, id - lag(id) over (order by id) from orders
select group_concat(id) from orders
""",
    "masks": """
select mail, pin, phone from orders
select id from orders where mail = 'a@example.org'
select id from orders where phone = '5550001234'
select id from orders where phone like '555%'
select id from orders where phone > '5' order by phone
select id from orders order by pin, phone, mail
select phone, count(*) from orders group by phone
select count(distinct phone) from orders
select count(distinct mail) from orders
select max(phone), min(phone) from orders
select length(phone), typeof(phone), hex(phone), unicode(phone) from orders
select substr(phone, 1, 3) from orders
select cast(phone as blob), cast(phone as integer) from orders
select phone + 0, -phone, phone || '' from orders
select quote(pin), json_quote(pin), octet_length(pin) from orders
select a.id, b.id from orders a join orders b on a.phone = b.phone
select a.id from orders a join orders b using (pin)
select id from orders where phone in ('5550001234', '5559991234')
select id from orders where phone between '5' and '6'
select id from orders where instr(phone, '555')
select id from orders where phone glob '555*'
select rank() over (order by phone) from orders
select first_value(phone) over (order by id) from orders
select json_group_array(phone) from orders
select group_concat(phone, ',') from orders
select nullif(phone, '5550001234') from orders
select iif(phone = '5550001234', 1, 0) from orders
select orders.phone from orders where +phone = '5550001234'
select id from orders where phone collate nocase = '5550001234'
select id from orders where (phone, pin) = ('5550001234', '1111')
select resource_server_digest('text', phone, '00') from orders
""",
    "other things than SELECT": """
pragma table_info(orders)
pragma database_list
pragma query_only = 0
attach ':memory:' as x
attach '/etc/passwd' as x
detach main
explain select * from orders
explain query plan select * from orders
select 1; select 2
select 1; attach ':memory:' as x
select 1;; select card from main.orders
begin
commit
rollback
savepoint x
vacuum into '/tmp/x'
analyze
reindex
insert into orders default values
update orders set id = 1
delete from orders
replace into orders values (1)
with x as (select 1) insert into orders select * from x
with x as (select 1) delete from orders
drop table orders
alter table orders rename to o
create table x (a)
create temp table x as select * from orders
create temp view x as select * from main.orders
create trigger x after insert on orders begin select 1; end
create virtual table temp.x using fts5(a)
select * from (explain select 1)
select * from (pragma table_info(orders))
select 1) union select card from main.orders--
select 1) limit 1 union select (1
) select (
((((((((((((((((((((((((((((((select 1))))))))))))))))))))))))))))))
values (1), ((select card from main.orders))
table orders
""",
    "functions": """
select load_extension('x')
select fts3_tokenizer('simple')
select readfile('/etc/passwd')
select writefile('/tmp/x', 'x')
select edit('x')
select printf('%1000000000d', 1)
select format('%1000000000d', 1)
select zeroblob(1000000000)
select randomblob(1000000000)
select sqlite_compileoption_used('x')
select sqlite_source_id()
select sqlite_log(1, 'x')
select changes(), total_changes(), last_insert_rowid()
select sqlite_offset(id) from orders
select snippet(orders) from orders
select matchinfo(notes) from notes
select fts5(1)
select rtreecheck('orders')
select nosuch(1)
select sum(sum(id)) from orders
select max(1, 2) over () from orders
select json('not json')
select abs(-9223372036854775808)
select likelihood(1, 2)
""",
}

COSTLY: Final[Sequence[str]] = (
    "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
    "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n order by -i",
    "select count(*) from orders a, orders b, orders c, orders d, orders e, orders f, orders g,"
    " orders h, orders i, orders j, orders k, orders l, orders m, orders n, orders o, orders p,"
    " orders q, orders r, orders s, orders t, orders u, orders v, orders w, orders x, orders y",
    "with recursive n(s) as (select 'a' union all select s || s from n) select length(s) from n",
    "with recursive n(i, s) as (select 1, 'a' union all select i + 1, s || s from n where i < 20)"
    " select s like '%a%a%a%a%a%a%a%a%b' from n",
    "with recursive n(i, s) as (select 1, 'a' union all select i + 1, s || s from n where i < 20)"
    " select s glob '*a*a*a*a*a*a*a*a*b' from n",
    f"select '{'x' * 90_000}'",
    f"select {', '.join(['1'] * 10_000)}",
    f"select {'(' * 300}1{')' * 300}",
    f"select {'1+' * 9_000}1",
    " union all ".join(["select 1"] * 600),
    f"select * from {', '.join(f'orders o{place}' for place in range(70))}",
    f"select 1 in ({', '.join(map(str, range(9_000)))})",
    f"select {'case when 1 then ' * 150}1{' end' * 150}",
    "select " + "-" * 50_000 + "\n1",
    f"select {'hex(' * 24}'abcdefghij'{')' * 24}",
    "select replace(replace(replace(hex(hex(hex(hex('abcdefgh')))), '6', '666666'), '6', '666666'),"
    " '6', '666666')",
    "select group_concat(a.doc || b.doc) from orders a, orders b, orders c, orders d, orders e",
)
"""Statements that take long, or much memory."""


def statements() -> Iterator[str]:
    """Yield the statements whose answers are the same in both worlds."""
    for source, place in product(SOURCES, PLACES):
        yield place.format(source)
    for text in _TEXTS.values():
        yield from text.strip().splitlines()
