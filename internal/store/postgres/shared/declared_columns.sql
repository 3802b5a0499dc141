-- A definition of a block, and the present sessions that declare it: of declaration as d, and {declared_by} as r.
d.number, d.kind, d.name, d.hash, d.body::text AS body, d.first_at, d.first_by, d.last_at, d.last_by,
    coalesce(r.sessions, '{}') AS sessions
