"""Questions about the shop's database, for this server and DBHub."""

from __future__ import annotations

from tests.benchmarks.agent.question import Argument, Call, Question, Rows


def _reading(path: str, **more: Argument) -> Call:
    return "read_resource", {"uri": f"sqlite://shop/{path}", **more}


def _search(query: str, path: str = "", **more: Argument) -> Call:
    return "search_resources", {"query": query, "uri": f"sqlite://shop{path}", **more}


def _sql(statement: str) -> Call:
    return "execute_sql", {"sql": statement}


def _definition(table: str) -> Call:
    """Return the call that gets columns, keys and checks of a table in the fewest characters."""
    return _sql(f"select sql from sqlite_master where name = '{table}'")  # noqa: S608


_TABLES = ("customers", "products", "orders", "order_lines")
_COUNTS = "counts of a table come with queries over `~rows`"
_GROUPS = "groups of a table come with queries over `~rows`"

QUESTIONS = (
    # What there is.
    Question(
        "which tables there are",
        list(_TABLES),
        ours=[("list_resources", {})],
        peer=[("search_objects", {"object_type": "table"})],
    ),
    Question(
        "which views there are",
        ["sales"],
        ours=[("list_resources", {})],
        peer=[("search_objects", {"object_type": "view"})],
    ),
    Question(
        "the columns of a table",
        ["id", "customer_id", "status", "card_number", "ordered_at", "updated_at"],
        ours=[_reading("orders/~schema")],
        peer=[_definition("orders")],
    ),
    Question(
        "the keys of a table",
        [
            r"(?i)primary key\W+order_id\W+line",
            r"references orders|order_id.{1,30}orders",
            r"references products|sku.{1,30}products",
        ],
        ours=[_reading("order_lines/~schema")],
        peer=[_definition("order_lines")],
    ),
    Question(
        "the indexes of a table",
        ["orders_of_customer", "orders_by_change"],
        ours=[_reading("orders/~schema")],
        peer=[("search_objects", {"object_type": "index", "schema": "main", "table": "orders"})],
    ),
    Question(
        "the columns of a view",
        ["order_id", "country", "ordered_at", "total_cents"],
        ours=[_reading("sales/~schema")],
        peer=[_definition("sales")],
    ),
    Question(
        "which table has a column",
        ["products", "attributes"],
        ours=[_search("attributes", **{"in": "names"})],
        peer=[("search_objects", {"object_type": "column", "pattern": "%attributes%"})],
    ),
    Question(
        "a table whose name is mistyped",
        ["customers"],
        ours=[_reading("customer/~rows"), ("list_resources", {})],
        peer=[
            _sql("select * from customer limit 5"),
            ("search_objects", {"object_type": "table", "pattern": "%customer%"}),
        ],
    ),
    # Rows.
    Question(
        "the first rows of a table",
        [Rows("select * from order_lines order by order_id, line limit 4")],
        ours=[_reading("order_lines/~rows?limit=5&format=csv")],
        peer=[_sql("select * from order_lines limit 5")],
    ),
    Question(
        "the first 20 rows of a table",
        [Rows("select id, name, country from customers order by id limit 20")],
        ours=[_reading("customers/~rows?limit=20&format=csv")],
        peer=[_sql("select * from customers limit 20")],
    ),
    Question(
        "two columns of a table",
        [Rows("select sku, price_cents from products order by sku")],
        ours=[_reading("products/~rows?columns=sku,price_cents&format=csv")],
        peer=[_sql("select sku, price_cents from products")],
    ),
    Question(
        "a row by its key",
        [Rows("select id, customer_id, status, ordered_at from orders where id = 700")],
        ours=[_reading("orders/700")],
        peer=[_sql("select * from orders where id = 700")],
    ),
    Question(
        "a row by a key of two columns",
        [Rows("select sku, grams, price_cents from order_lines where order_id = 699 and line = 2")],
        ours=[_reading("order_lines/699/2")],
        peer=[_sql("select * from order_lines where order_id = 699 and line = 2")],
    ),
    Question(
        "the lines of an order",
        [Rows("select line, sku, grams, price_cents from order_lines where order_id = 699")],
        ours=[_reading("order_lines/699")],
        peer=[_sql("select * from order_lines where order_id = 699")],
    ),
    Question(
        "a row and the row it refers to",
        [
            Rows("""select orders.status, customers.name, customers.country from orders
              join customers on customers.id = customer_id where orders.id = 6""")
        ],
        ours=[_reading("orders/6"), _reading("customers/3")],
        peer=[
            _sql(
                "select o.status, o.ordered_at, c.name, c.country from orders o "
                "join customers c on c.id = o.customer_id where o.id = 6"
            )
        ],
    ),
    Question(
        "a value of JSON in a row",
        ["origin", "IN", "organic"],
        ours=[_reading("products/assam-2/~cell/attributes")],
        peer=[_sql("select attributes from products where sku = 'assam-2'")],
    ),
    Question(
        "a row of a view",
        [Rows("select country, ordered_at, total_cents from sales where order_id = 6")],
        ours=[_reading("sales/6")],
        peer=[_sql("select * from sales where order_id = 6")],
    ),
    Question(
        "the first rows of a view",
        [Rows("select * from sales order by order_id limit 10")],
        ours=[_reading("sales/~rows?limit=10&format=csv")],
        peer=[_sql("select * from sales limit 10")],
    ),
    # Rows by what is in them.
    Question(
        "a customer by a part of the name",
        [Rows("select id, name from customers where name like 'Dagný Jó%'")],
        ours=[_search("Jónsd")],
        peer=[_sql("select id, name from customers where name like '%Jónsd%'")],
    ),
    Question(
        "all customers of one name",
        [Rows("select id, name from customers where name like 'Greta %'")],
        ours=[_search("greta")],
        peer=[_sql("select id, name from customers where name like '%greta%'")],
    ),
    Question(
        "a product by a word of its description",
        ["earl/grey|~tearl~2Fgrey", "bergamot"],
        ours=[_search("bergamot")],
        peer=[_sql("select sku, attributes from products where attributes like '%bergamot%'")],
    ),
    Question(
        "a product by its name, all of it",
        [Rows("select sku, name, price_cents from products where name = 'Earl Grey'")],
        ours=[_search("Earl Grey"), _reading("products/~tearl~2Fgrey")],
        peer=[_sql("select * from products where name = 'Earl Grey'")],
    ),
    Question(
        "the orders of one status",
        [Rows("select id, customer_id, ordered_at from orders where status = 'open'")],
        ours=[("waiting", {})],
        peer=[
            _sql(
                "select id, customer_id, ordered_at from orders where status = 'open' "
                "order by ordered_at"
            )
        ],
    ),
    Question(
        "the orders of a customer",
        [
            Rows(
                "select id, status, ordered_at from orders "
                "where customer_id = 17 and status <> 'draft'"
            )
        ],
        ours=[("orders_of_customer", {"customer_id": 17})],
        peer=[_sql("select id, status, ordered_at from orders where customer_id = 17")],
    ),
    Question(
        "the newest orders, with the customers' names",
        [
            Rows("""select orders.id, name, status, ordered_at from orders join customers
              on customers.id = customer_id where status <> 'draft'
              order by ordered_at desc limit 10""")
        ],
        ours=[("latest_orders", {})],
        peer=[
            _sql(
                "select o.id, c.name, o.status, o.ordered_at from orders o join customers c "
                "on c.id = o.customer_id where o.status <> 'draft' "
                "order by o.ordered_at desc limit 10"
            )
        ],
    ),
    Question(
        "the best customers of a country",
        [
            Rows("""select name, sum(total_cents) from customers
              join orders on customer_id = customers.id
              join sales on order_id = orders.id where customers.country = 'FR'
              group by customers.id order by 2 desc limit 5""")
        ],
        ours=[("top_customers", {"country": "FR", "count": 5})],
        peer=[
            _sql(
                "select c.name, sum(s.total_cents) as total_cents from customers c "
                "join orders o on o.customer_id = c.id join sales s on s.order_id = o.id "
                "where c.country = 'FR' group by c.id order by total_cents desc limit 5"
            )
        ],
    ),
    # Nothing is declared for these: all rows have to be read.
    Question(
        "the customers of a country",
        [Rows("select id, name from customers where country = 'IS'")],
        ours=[_reading("customers/~rows?columns=id,name,country&limit=1000&format=csv")],
        peer=[_sql("select id, name from customers where country = 'IS'")],
    ),
    Question(
        "the products of more than a price",
        [Rows("select name, price_cents from products where price_cents > 25")],
        ours=[_reading("products/~rows?columns=name,price_cents&limit=1000&format=csv")],
        peer=[_sql("select name, price_cents from products where price_cents > 25")],
    ),
    # Later.
    Question(
        "how many orders there are",
        ["1000"],
        ours=[],
        peer=[_sql("select count(*) from orders")],
        later=_COUNTS,
    ),
    Question(
        "how many orders of each status",
        ["sent", "paid", "open"],
        ours=[],
        peer=[_sql("select status, count(*) as orders from orders group by status")],
        later=_GROUPS,
    ),
)
