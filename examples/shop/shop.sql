-- A tea shop's database. Make shop.db from it:  python make.py
pragma foreign_keys = on;

create table customers (
    id integer primary key,
    name text not null,
    email text not null unique,
    country text not null check (length(country) = 2)
);

create table products (
    sku text primary key not null,
    name text not null,
    price_cents integer not null check (price_cents > 0),
    attributes json not null check (json_valid(attributes)),
    picture blob
) without rowid;

create table orders (
    id integer primary key,
    customer_id integer not null references customers (id),
    status text not null check (status in ('draft', 'open', 'paid', 'sent')),
    card_number text,
    ordered_at text not null,
    updated_at text not null
);
create index orders_of_customer on orders (customer_id);
create index orders_by_change on orders (updated_at);

create trigger orders_touched after update on orders when new.updated_at is old.updated_at begin
    update orders set updated_at = strftime('%Y-%m-%dT%H:%M:%fZ') where id = new.id;
end;

create table order_lines (
    order_id integer not null references orders (id),
    line integer not null,
    sku text not null references products (sku),
    grams integer not null check (grams > 0),
    price_cents integer not null,
    primary key (order_id, line)
) without rowid;

create table audit_log (
    id integer primary key,
    at text not null,
    login text not null,
    what text not null
);

create view sales as
select orders.id as order_id, customers.country, orders.ordered_at,
    sum(order_lines.price_cents) as total_cents
from orders
join customers on customers.id = orders.customer_id
join order_lines on order_lines.order_id = orders.id
where orders.status in ('paid', 'sent')
group by orders.id;

insert into customers (id, name, email, country) values
    (1, 'Ada Winter', 'ada@example.org', 'DE'),
    (2, 'Bo Chen', 'bo.chen@example.com', 'FR'),
    (3, 'Chloé Martin', 'chloe@example.fr', 'FR'),
    (4, 'Dagný Jónsdóttir', 'dagny@example.is', 'IS'),
    (5, 'Emeka Obi', 'emeka@example.net', 'DE');

insert into products (sku, name, price_cents, attributes, picture) values
    ('assam-2', 'Assam, second flush', 4, '{"origin": "IN", "minutes": [3, 4], "organic": true}',
        x'89504e470d0a1a0a0000000d494844520000000400000004080200000026930929000000104944415478da63e8f296832306e2380091e30f31e84e61310000000049454e44ae426082'),
    ('earl/grey', 'Earl Grey', 5, '{"origin": "LK", "minutes": [3], "scent": "bergamot"}', null),
    ('gyokuro', 'Gyokuro', 19, '{"origin": "JP", "minutes": [1, 2], "celsius": 55}', null),
    ('mint', 'Mint', 3, '{"origin": "MA", "minutes": [5, 8], "caffeine": false}', null);

insert into orders (id, customer_id, status, card_number, ordered_at, updated_at) values
    (1, 1, 'sent', '4111111111111111', '2026-03-02T09:14:00Z', '2026-03-04T16:02:00Z'),
    (2, 2, 'paid', '5500005555555559', '2026-03-05T11:30:00Z', '2026-03-05T11:31:00Z'),
    (3, 3, 'open', null, '2026-03-06T08:05:00Z', '2026-03-06T08:05:00Z'),
    (4, 2, 'draft', null, '2026-03-06T10:40:00Z', '2026-03-06T10:41:00Z'),
    (5, 4, 'sent', '340000000000009', '2026-03-07T19:22:00Z', '2026-03-09T07:45:00Z'),
    (6, 3, 'paid', '4111111111111111', '2026-03-08T12:00:00Z', '2026-03-08T12:01:00Z');

insert into order_lines (order_id, line, sku, grams, price_cents) values
    (1, 1, 'assam-2', 250, 1000),
    (1, 2, 'mint', 100, 300),
    (2, 1, 'gyokuro', 50, 950),
    (3, 1, 'earl/grey', 100, 500),
    (4, 1, 'gyokuro', 500, 8550),
    (5, 1, 'earl/grey', 1000, 4500),
    (5, 2, 'mint', 50, 150),
    (6, 1, 'assam-2', 500, 1800);

insert into audit_log (id, at, login, what) values
    (1, '2026-03-04T16:02:00Z', 'dana', 'order 1 sent'),
    (2, '2026-03-09T07:45:00Z', 'dana', 'order 5 sent');
