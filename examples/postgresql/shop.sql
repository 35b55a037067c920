-- A small tea shop to try the commands of README.md with, and what must not be seen of it.
CREATE TYPE state AS ENUM ('draft', 'open', 'sent');

CREATE TABLE customers (
  id integer PRIMARY KEY,
  name text NOT NULL,
  email text NOT NULL,
  likes text[] NOT NULL DEFAULT '{}');
COMMENT ON TABLE customers IS 'Who buys';

CREATE TABLE orders (
  id integer PRIMARY KEY,
  customer_id integer NOT NULL REFERENCES customers,
  state state NOT NULL,
  total numeric(10, 2) NOT NULL,
  card_number text NOT NULL,
  ordered_at timestamptz NOT NULL);
COMMENT ON COLUMN orders.total IS 'In euros';

CREATE TABLE order_lines (
  order_id integer REFERENCES orders,
  line integer,
  tea text NOT NULL,
  grams integer NOT NULL,
  PRIMARY KEY (order_id, line));

CREATE VIEW sales AS SELECT id AS order_id, total FROM orders WHERE state = 'sent';

CREATE TABLE audit_log (id integer PRIMARY KEY, entry text NOT NULL);
CREATE SCHEMA internal;
CREATE TABLE internal.notes (id integer PRIMARY KEY, note text NOT NULL);

INSERT INTO customers VALUES
  (1, 'Ada Winter', 'ada@example.org', '{Assam,"Earl Grey"}'),
  (2, 'Bo Chen', 'bo@example.org', '{}');
INSERT INTO orders VALUES
  (1, 1, 'sent', 23.80, '4000111122220009', '2026-11-02 09:30+01'),
  (2, 2, 'open', 7.50, '4000111122220017', '2026-11-20 18:05+01'),
  (3, 1, 'draft', 61.00, '4000111122220009', '2026-11-20 18:10+01'),
  (4, 2, 'sent', 12.00, '4000111122220017', '2026-11-21 08:00+01');
INSERT INTO order_lines VALUES
  (1, 1, 'Assam', 250), (1, 2, 'Earl Grey', 100), (2, 1, 'Assam', 50), (3, 1, 'Pu-Erh', 500);
INSERT INTO audit_log VALUES (1, 'Ada has logged in');
INSERT INTO internal.notes VALUES (1, 'Bo pays late');
