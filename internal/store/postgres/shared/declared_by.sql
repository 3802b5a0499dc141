-- Which definitions present sessions declare, and which sessions.
(SELECT r.number, array_agg(r.session ORDER BY r.session) AS sessions
    FROM {schema}.agent AS a JOIN {schema}.declarer AS r ON r.session = a.session
    WHERE a.present_until > now() GROUP BY r.number)
