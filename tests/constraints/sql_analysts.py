"""Ordinary queries of people who analyse the data of a shop, written before any was tried."""

from __future__ import annotations

TABLES = {
    "customers": ["id", "name", "email", "city", "country", "signup_date"],
    "orders": ["id", "customer_id", "order_date", "status", "total"],
    "order_items": ["order_id", "product_id", "quantity", "unit_price"],
    "products": ["id", "name", "category", "price"],
    "employees": ["id", "name", "department", "salary", "hire_date", "manager_id"],
}
FOREIGN_KEYS = [
    ("orders", "customers"),
    ("order_items", "orders"),
    ("order_items", "products"),
    ("employees", "employees"),
]
QUERIES = """
SELECT * FROM customers
SELECT * FROM orders LIMIT 10
SELECT name, email FROM customers WHERE country = 'Germany'
SELECT COUNT(*) FROM orders
SELECT COUNT(DISTINCT customer_id) FROM orders
SELECT COUNT(*) AS number_of_customers FROM customers WHERE city = 'Paris'
SELECT city, COUNT(*) AS n FROM customers GROUP BY city ORDER BY n DESC
SELECT city, COUNT(*) AS customers FROM customers GROUP BY city ORDER BY customers DESC LIMIT 5
SELECT country, COUNT(*) FROM customers GROUP BY country HAVING COUNT(*) > 10
SELECT country, COUNT(*) AS total FROM customers GROUP BY country HAVING total > 10
SELECT status, SUM(total) AS revenue FROM orders GROUP BY status
SELECT status, SUM(total) AS revenue FROM orders GROUP BY status ORDER BY revenue DESC
SELECT status, AVG(total) AS avg_total, MAX(total) AS max_total FROM orders GROUP BY status
    ORDER BY avg_total
SELECT strftime('%Y-%m', order_date) AS month, SUM(total) AS revenue FROM orders GROUP BY month
    ORDER BY month
SELECT strftime('%Y', order_date) AS year, COUNT(*) AS orders FROM orders GROUP BY year
SELECT date(order_date) AS day, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day
SELECT * FROM orders WHERE order_date >= '2024-01-01' AND order_date < '2024-02-01'
SELECT * FROM orders WHERE order_date BETWEEN '2024-01-01' AND '2024-01-31' ORDER BY total DESC
SELECT * FROM orders WHERE order_date >= date('now', '-30 days')
SELECT COUNT(*) FROM orders WHERE strftime('%Y', order_date) = '2023'
SELECT c.name, o.total FROM customers c JOIN orders o ON c.id = o.customer_id
SELECT c.name, SUM(o.total) AS spent FROM customers c JOIN orders o ON o.customer_id = c.id
    GROUP BY c.id, c.name ORDER BY spent DESC LIMIT 10
SELECT c.name, SUM(o.total) AS total_spent FROM customers AS c INNER JOIN orders AS o ON c.id =
    o.customer_id GROUP BY c.name HAVING SUM(o.total) > 1000 ORDER BY total_spent DESC
SELECT c.name FROM customers c LEFT JOIN orders o ON c.id = o.customer_id WHERE o.id IS NULL
SELECT name FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)
SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id =
    c.id)
SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 500)
SELECT name, price FROM products WHERE price > (SELECT AVG(price) FROM products)
SELECT name, price FROM products ORDER BY price DESC LIMIT 1
SELECT * FROM products WHERE price = (SELECT MAX(price) FROM products)
SELECT DISTINCT category FROM products
SELECT category, AVG(price) FROM products GROUP BY category
SELECT category, ROUND(AVG(price), 2) AS avg_price FROM products GROUP BY category ORDER BY
    avg_price DESC
SELECT p.name, SUM(oi.quantity) AS sold FROM products p JOIN order_items oi ON p.id =
    oi.product_id GROUP BY p.id ORDER BY sold DESC
SELECT p.category, SUM(oi.quantity * oi.unit_price) AS revenue FROM order_items oi JOIN products
    p ON oi.product_id = p.id GROUP BY p.category
SELECT c.name, p.name FROM customers c JOIN orders o ON o.customer_id = c.id JOIN order_items oi
    ON oi.order_id = o.id JOIN products p ON p.id = oi.product_id
SELECT c.country, SUM(oi.quantity * oi.unit_price) AS revenue FROM customers c JOIN orders o ON
    c.id = o.customer_id JOIN order_items oi ON o.id = oi.order_id GROUP BY c.country ORDER BY
    revenue DESC
SELECT SUM(quantity * unit_price) FROM order_items
SELECT order_id, SUM(quantity * unit_price) AS order_value FROM order_items GROUP BY order_id
    HAVING order_value > 100
SELECT name, salary FROM employees WHERE salary > 50000 AND department = 'Sales'
SELECT department, MAX(salary) FROM employees GROUP BY department
SELECT department, AVG(salary) AS avg_salary FROM employees GROUP BY department HAVING
    AVG(salary) > 60000
SELECT e.name, m.name AS manager FROM employees e JOIN employees m ON e.manager_id = m.id
SELECT e.name, m.name AS manager FROM employees e LEFT JOIN employees m ON e.manager_id = m.id
SELECT name, RANK() OVER (ORDER BY salary DESC) AS salary_rank FROM employees
SELECT name, department, RANK() OVER (PARTITION BY department ORDER BY salary DESC) AS rnk FROM
    employees
SELECT name, salary, ROW_NUMBER() OVER (ORDER BY salary DESC) FROM employees
SELECT order_date, total, SUM(total) OVER (ORDER BY order_date) AS running_total FROM orders
SELECT id, total, LAG(total) OVER (PARTITION BY customer_id ORDER BY order_date) AS previous
    FROM orders
SELECT name, salary - AVG(salary) OVER (PARTITION BY department) AS diff FROM employees
SELECT * FROM (SELECT name, salary, RANK() OVER (ORDER BY salary DESC) AS r FROM employees)
    WHERE r <= 3
WITH monthly AS (SELECT strftime('%Y-%m', order_date) AS month, SUM(total) AS revenue FROM
    orders GROUP BY month) SELECT month, revenue FROM monthly ORDER BY revenue DESC
WITH totals AS (SELECT customer_id, SUM(total) AS spent FROM orders GROUP BY customer_id) SELECT
    AVG(spent) FROM totals
WITH cte AS (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) SELECT
    customer_id FROM cte WHERE n > 5
SELECT AVG(n) FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id)
SELECT AVG(order_count) FROM (SELECT customer_id, COUNT(*) AS order_count FROM orders GROUP BY
    customer_id) AS t
SELECT CASE WHEN total < 50 THEN 'small' WHEN total < 200 THEN 'medium' ELSE 'large' END AS
    size, COUNT(*) FROM orders GROUP BY size
SELECT SUM(CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END) AS cancelled FROM orders
SELECT status, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM orders) AS pct FROM orders GROUP BY
    status
SELECT ROUND(100.0 * SUM(CASE WHEN status = 'shipped' THEN 1 ELSE 0 END) / COUNT(*), 1) AS
    pct_shipped FROM orders
SELECT CAST(SUM(total) AS INTEGER) FROM orders
SELECT AVG(julianday('now') - julianday(order_date)) FROM orders
SELECT name FROM customers WHERE name LIKE 'A%'
SELECT name FROM customers WHERE email LIKE '%@gmail.com' AND city IN ('Berlin', 'Munich')
SELECT name FROM customers WHERE city IS NULL OR city = ''
SELECT UPPER(name), LENGTH(email) FROM customers
SELECT name || ' <' || email || '>' AS contact FROM customers
SELECT SUBSTR(email, INSTR(email, '@') + 1) AS domain, COUNT(*) FROM customers GROUP BY domain
    ORDER BY COUNT(*) DESC
SELECT COALESCE(city, 'unknown'), COUNT(*) FROM customers GROUP BY 1 ORDER BY 2 DESC
SELECT category, COUNT(*) FROM products GROUP BY category ORDER BY COUNT(*) DESC, category ASC
SELECT name FROM customers UNION SELECT name FROM employees
SELECT 'customer' AS kind, COUNT(*) FROM customers UNION ALL SELECT 'employee', COUNT(*) FROM
    employees
SELECT id FROM customers EXCEPT SELECT customer_id FROM orders
SELECT customer_id, MIN(order_date) AS first_order, MAX(order_date) AS last_order FROM orders
    GROUP BY customer_id
SELECT customer_id, COUNT(*) AS n FROM orders WHERE status != 'cancelled' GROUP BY customer_id
    HAVING n >= 3 ORDER BY n DESC, customer_id
SELECT c.city, COUNT(DISTINCT o.customer_id) AS buyers FROM customers c JOIN orders o ON
    o.customer_id = c.id GROUP BY c.city
SELECT customers.name, orders.total FROM customers JOIN orders ON customers.id =
    orders.customer_id WHERE orders.status = 'shipped'
SELECT customers.name, COUNT(orders.id) AS order_count FROM customers LEFT JOIN orders ON
    customers.id = orders.customer_id GROUP BY customers.id ORDER BY order_count DESC
SELECT * FROM orders ORDER BY RANDOM() LIMIT 5
SELECT name, hire_date FROM employees ORDER BY hire_date DESC LIMIT 10 OFFSET 20
SELECT MAX(salary) FROM employees WHERE salary < (SELECT MAX(salary) FROM employees)
SELECT DISTINCT e1.salary FROM employees e1 WHERE 3 = (SELECT COUNT(DISTINCT e2.salary) FROM
    employees e2 WHERE e2.salary >= e1.salary)
SELECT o.id, o.total FROM orders o WHERE o.total > (SELECT AVG(o2.total) FROM orders o2 WHERE
    o2.customer_id = o.customer_id)
SELECT GROUP_CONCAT(name, ', ') FROM products WHERE category = 'Books'
SELECT order_id, COUNT(*) AS items, SUM(quantity) AS pieces FROM order_items GROUP BY order_id
    ORDER BY pieces DESC
"""


def queries() -> list[str]:
    """Each on one line."""
    return QUERIES.strip().replace("\n    ", " ").splitlines()
