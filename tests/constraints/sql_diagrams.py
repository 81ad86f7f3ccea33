"""SQLite's own syntax diagrams of SELECT (lang_select, lang_expr, windowfunctions), walked.

Each branch of a diagram is a kind, with one query that takes it. ``RAISE`` is left out (it stands
in triggers only), and so are bind parameters: a query that wants values to be bound does not run.
"""

from __future__ import annotations

TABLES = {
    "customer": ["id", "name", "city", "age"],
    "orders": ["id", "customer_id", "total_price", "day"],
}

KINDS = {
    # select-stmt
    "WITH": "WITH cte AS (SELECT * FROM customer) SELECT name FROM cte",
    "WITH RECURSIVE": (
        "WITH RECURSIVE cte(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM cte WHERE n < 9) "
        "SELECT n FROM cte"
    ),
    "WITH, several": (
        "WITH cte AS (SELECT city, COUNT(*) AS n FROM customer GROUP BY city), "
        "t AS (SELECT * FROM cte WHERE n > 1) SELECT city, n FROM t ORDER BY n DESC"
    ),
    "compound": "SELECT id FROM customer UNION SELECT customer_id FROM orders",
    "ORDER BY": "SELECT name FROM customer ORDER BY age",
    "ORDER BY, several": "SELECT name FROM customer ORDER BY age DESC, name",
    "LIMIT": "SELECT name FROM customer LIMIT 3",
    "LIMIT OFFSET": "SELECT name FROM customer LIMIT 3 OFFSET 2",
    "LIMIT comma": "SELECT name FROM customer LIMIT 3, 2",
    # common-table-expression
    "MATERIALIZED": "WITH cte AS MATERIALIZED (SELECT id FROM orders) SELECT id FROM cte",
    "NOT MATERIALIZED": "WITH cte AS NOT MATERIALIZED (SELECT id FROM orders) SELECT id FROM cte",
    "CTE with columns": "WITH cte(n) AS (SELECT age FROM customer) SELECT n FROM cte",
    # select-core
    "DISTINCT": "SELECT DISTINCT city FROM customer",
    "ALL": "SELECT ALL city FROM customer",
    "no FROM": "SELECT 1 + 2",
    "WHERE": "SELECT name FROM customer WHERE age > 30",
    "GROUP BY": "SELECT city FROM customer GROUP BY city",
    "GROUP BY expression": "SELECT COUNT(*) FROM customer GROUP BY lower(city)",
    "GROUP BY, several": "SELECT city, age FROM customer GROUP BY city, age",
    "HAVING": "SELECT city FROM customer GROUP BY city HAVING COUNT(*) > 2",
    "WINDOW": "SELECT rank() OVER w FROM customer WINDOW w AS (ORDER BY age)",
    "VALUES": "VALUES (1, 'a'), (2, 'b')",
    # result-column
    "column": "SELECT name FROM customer",
    "column AS label": "SELECT name AS label_1 FROM customer",
    "column label": "SELECT name label_1 FROM customer",
    "*": "SELECT * FROM customer",
    "table.*": "SELECT customer.* FROM customer",
    # table-or-subquery
    "table": "SELECT name FROM customer",
    "schema.table": "SELECT name FROM main.customer",
    "table AS alias": "SELECT c.name FROM customer AS c",
    "table alias": "SELECT c.name FROM customer c",
    "INDEXED BY": "SELECT name FROM customer INDEXED BY by_age WHERE age = 3",
    "NOT INDEXED": "SELECT name FROM customer NOT INDEXED",
    "table function": "SELECT value FROM json_each('[1, 2]')",
    "sub-query in FROM": "SELECT city FROM (SELECT city FROM customer)",
    "sub-query in FROM with alias": (
        "SELECT city, n FROM (SELECT city, COUNT(*) AS n FROM customer GROUP BY city) AS x_1"
    ),
    "joins in parentheses": (
        "SELECT name FROM (customer JOIN orders ON customer.id = orders.customer_id)"
    ),
    # join-clause, join-operator, join-constraint
    "comma": "SELECT name FROM customer, orders",
    "JOIN": "SELECT name FROM customer JOIN orders",
    "INNER JOIN": "SELECT name FROM customer INNER JOIN orders ON customer_id = customer.id",
    "CROSS JOIN": "SELECT name FROM customer CROSS JOIN orders",
    "LEFT JOIN": "SELECT name FROM customer LEFT JOIN orders ON customer_id = customer.id",
    "LEFT OUTER JOIN": "SELECT name FROM customer LEFT OUTER JOIN orders USING (id)",
    "RIGHT JOIN": "SELECT name FROM customer RIGHT JOIN orders ON customer_id = customer.id",
    "FULL OUTER JOIN": "SELECT name FROM customer FULL OUTER JOIN orders USING (id)",
    "NATURAL JOIN": "SELECT name FROM customer NATURAL JOIN orders",
    "ON": "SELECT o.day FROM customer c JOIN orders o ON c.id = o.customer_id AND c.age > 3",
    "USING": "SELECT name FROM customer JOIN orders USING (id)",
    # compound-operator
    "UNION": "SELECT id FROM customer UNION SELECT id FROM orders ORDER BY 1",
    "UNION ALL": "SELECT id, age FROM customer UNION ALL SELECT id, day FROM orders",
    "INTERSECT": "SELECT id FROM customer INTERSECT SELECT customer_id FROM orders LIMIT 3",
    "EXCEPT": "SELECT id FROM customer EXCEPT SELECT customer_id FROM orders ORDER BY customer_id",
    # ordering-term
    "ASC": "SELECT name FROM customer ORDER BY age ASC",
    "DESC": "SELECT name FROM customer ORDER BY age DESC",
    "COLLATE in ORDER BY": "SELECT name FROM customer ORDER BY name COLLATE NOCASE",
    "NULLS FIRST": "SELECT name FROM customer ORDER BY age NULLS FIRST",
    "NULLS LAST": "SELECT name FROM customer ORDER BY age DESC NULLS LAST",
    "ORDER BY expression": "SELECT name FROM customer ORDER BY age % 2, length(name)",
    "ORDER BY label": "SELECT city, COUNT(*) AS n FROM customer GROUP BY city ORDER BY n",
    "ORDER BY number": "SELECT name FROM customer ORDER BY 1",
    # expr
    "number": "SELECT 1.5 FROM customer WHERE age = 3",
    "string": "SELECT name FROM customer WHERE city = 'Oslo'",
    "blob": "SELECT name FROM customer WHERE city = x'0a'",
    "NULL": "SELECT NULL FROM customer",
    "TRUE": "SELECT name FROM customer WHERE TRUE",
    "CURRENT_DATE": "SELECT name FROM customer WHERE city < CURRENT_DATE",
    "table.column": "SELECT customer.name FROM customer",
    "schema.table.column": "SELECT main.customer.name FROM customer",
    "quoted column": 'SELECT customer.[name], `age`, "city" FROM "customer"',
    "unary operator": "SELECT -age FROM customer WHERE ~age OR NOT age",
    "binary operator": "SELECT age * 2 || name FROM customer WHERE age << 1 >= 3 AND id <> 2",
    "function": "SELECT upper(name) FROM customer",
    "nested function": "SELECT round(abs(age), 1), upper(substr(name, 1, 1)) FROM customer",
    "aggregate of *": "SELECT COUNT(*) FROM customer",
    "aggregate of DISTINCT": "SELECT COUNT(DISTINCT city) FROM customer",
    "FILTER": "SELECT COUNT(*) FILTER (WHERE age > 3) FROM customer",
    "OVER": "SELECT name, row_number() OVER (ORDER BY age) FROM customer",
    "parentheses": "SELECT (age + 1) * 2 FROM customer WHERE (age > 3 OR id = 1) AND name = 'a'",
    "row value": "SELECT name FROM customer WHERE (id, age) = (1, 2)",
    "CAST": "SELECT CAST(age AS REAL), CAST(name AS VARCHAR(10)) FROM customer",
    "COLLATE": "SELECT name FROM customer WHERE name COLLATE NOCASE = 'a'",
    "LIKE": "SELECT name FROM customer WHERE name NOT LIKE 'a%'",
    "LIKE ESCAPE": "SELECT name FROM customer WHERE name LIKE 'a!%' ESCAPE '!'",
    "GLOB": "SELECT name FROM customer WHERE name GLOB 'a*'",
    "ISNULL": "SELECT name FROM customer WHERE age ISNULL",
    "NOTNULL": "SELECT name FROM customer WHERE age NOTNULL OR age NOT NULL",
    "IS": "SELECT name FROM customer WHERE age IS NOT NULL AND city IS 'a'",
    "IS DISTINCT FROM": "SELECT name FROM customer WHERE age IS NOT DISTINCT FROM id",
    "BETWEEN": "SELECT name FROM customer WHERE age NOT BETWEEN 3 AND 5",
    "IN list": "SELECT name FROM customer WHERE city IN ('a', 'b')",
    "IN sub-query": "SELECT name FROM customer WHERE id IN (SELECT customer_id FROM orders)",
    "EXISTS": (
        "SELECT name FROM customer WHERE NOT EXISTS "
        "(SELECT 1 FROM orders WHERE orders.customer_id = customer.id)"
    ),
    "scalar sub-query": "SELECT name FROM customer WHERE age > (SELECT AVG(age) FROM customer)",
    "CASE WHEN": "SELECT CASE WHEN age > 3 THEN 'old' ELSE 'young' END FROM customer",
    "CASE base": "SELECT CASE city WHEN 'a' THEN 1 WHEN 'b' THEN 2 END FROM customer",
    # over-clause, window-defn, frame-spec
    "OVER ()": "SELECT SUM(age) OVER () FROM customer",
    "OVER name": "SELECT SUM(age) OVER w FROM customer WINDOW w AS (PARTITION BY city)",
    "PARTITION BY": "SELECT SUM(age) OVER (PARTITION BY city) FROM customer",
    "PARTITION BY, ORDER BY": (
        "SELECT rank() OVER (PARTITION BY city ORDER BY age DESC) AS place_1 FROM customer"
    ),
    "ROWS": "SELECT SUM(age) OVER (ORDER BY id ROWS 2 PRECEDING) FROM customer",
    "ROWS BETWEEN": (
        "SELECT AVG(age) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM customer"
    ),
    "RANGE": (
        "SELECT SUM(age) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) "
        "FROM customer"
    ),
    "GROUPS": "SELECT SUM(age) OVER (ORDER BY id GROUPS CURRENT ROW) FROM customer",
    "EXCLUDE": (
        "SELECT SUM(age) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING EXCLUDE TIES) FROM customer"
    ),
    "lag": "SELECT lag(age, 1, 0) OVER (ORDER BY id) FROM customer",
}
