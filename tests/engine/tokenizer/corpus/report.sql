-- Revenue by month and country, largest first.
WITH paid AS (
    SELECT o.id, o.country, date_trunc('month', o.paid_at) AS month, SUM(l.quantity * l.unit_price) AS total
    FROM orders o
    JOIN order_lines l ON l.order_id = o.id
    WHERE o.paid_at >= $1 AND o.paid_at < $2 AND o.status <> 'cancelled'
    GROUP BY o.id, o.country, date_trunc('month', o.paid_at)
)
SELECT month, country, COUNT(*) AS orders, ROUND(SUM(total), 2) AS revenue,
       RANK() OVER (PARTITION BY month ORDER BY SUM(total) DESC) AS place
FROM paid
GROUP BY month, country
HAVING SUM(total) > 1000.00
ORDER BY month DESC, revenue DESC NULLS LAST
LIMIT 50;
