-- A definition of a block, declaration as d, and the sessions that are present at @now and declare it.
d.number, d.kind, d.name, d.hash, d.body, d.first_at, d.first_by, d.last_at, d.last_by,
    (SELECT json_group_array(s.session) FROM (
        SELECT a.session FROM declarer AS r JOIN agent AS a ON a.session = r.session
        WHERE r.number = d.number AND a.present_until > @now ORDER BY a.session) AS s) AS sessions
