create table tea (
  name text primary key,
  price_per_gram real not null check (price_per_gram > 0)
);

create table order_line (
  order_id integer not null,
  tea text not null references tea (name),
  grams integer not null check (grams > 0),
  primary key (order_id, tea)
);
