package postgres

import (
	"strings"
)

// Grants is the script that gives a role of an application what it needs and nothing more: to insert tasks, to enqueue,
// to look. With operator it gives also what operators do by SQL; in this version there is nothing of that kind.
func Grants(schemaName, role string, operator bool) string {
	const producer = `-- to insert tasks, RETURNING id, and to look at them
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT INSERT (type, payload, run_at, priority, region, key, max_attempts, labels, traceparent, created_by),
    SELECT (id) ON {schema}.task TO {role};
GRANT SELECT ON {schema}.tasks TO {role};
GRANT EXECUTE ON FUNCTION
    {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text) TO {role};
`
	const operators = `-- --operator adds nothing in this version: there are no functions for operators yet
`
	text := producer
	if operator {
		text += operators
	}
	return strings.NewReplacer("{schema}", schema(schemaName).quoted(), "{role}", quoteIdentifier(role)).Replace(text)
}
