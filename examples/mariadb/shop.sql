-- A small tea shop to try the commands of README.md with, and what must not be seen of it.
CREATE TABLE customers (
  id int PRIMARY KEY,
  name varchar(100) NOT NULL,
  email varchar(200) NOT NULL,
  likes set('Assam', 'Earl Grey', 'Sencha') NOT NULL) COMMENT 'Who buys';

CREATE TABLE orders (
  id int PRIMARY KEY,
  customer_id int NOT NULL,
  state enum('draft', 'open', 'sent') NOT NULL,
  total decimal(10, 2) NOT NULL COMMENT 'In euros',
  card_number char(16) NOT NULL,
  ordered_at datetime NOT NULL,
  FOREIGN KEY (customer_id) REFERENCES customers (id));

CREATE TABLE order_lines (
  order_id int,
  line int,
  tea varchar(100) NOT NULL,
  grams int NOT NULL,
  PRIMARY KEY (order_id, line),
  FOREIGN KEY (order_id) REFERENCES orders (id));

CREATE VIEW sales AS SELECT id AS order_id, total FROM orders WHERE state = 'sent';

CREATE TABLE audit_log (id int PRIMARY KEY, entry text NOT NULL);

INSERT INTO customers VALUES
  (1, 'Ada Winter', 'ada@example.org', 'Assam,Earl Grey'),
  (2, 'Bo Chen', 'bo@example.org', '');
INSERT INTO orders VALUES
  (1, 1, 'sent', 23.80, '4000111122220009', '2026-11-02 08:30'),
  (2, 2, 'open', 7.50, '4000111122220017', '2026-11-20 17:05'),
  (3, 1, 'draft', 61.00, '4000111122220009', '2026-11-20 17:10'),
  (4, 2, 'sent', 12.00, '4000111122220017', '2026-11-21 07:00');
INSERT INTO order_lines VALUES
  (1, 1, 'Assam', 250), (1, 2, 'Earl Grey', 100), (2, 1, 'Assam', 50), (3, 1, 'Pu-Erh', 500);
INSERT INTO audit_log VALUES (1, 'Ada has logged in');
