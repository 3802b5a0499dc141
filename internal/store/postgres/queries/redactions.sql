-- Which members are masked where documents are shown.

-- name: note_redactions
{note_redactions}

-- name: redactions
SELECT r.type, r.name FROM {schema}.redactions AS r ORDER BY r.type COLLATE "C", r.name COLLATE "C"
