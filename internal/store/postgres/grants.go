package postgres

import (
	"strings"
)

// Grants is the script that gives a role of an application what it needs and nothing more: to insert tasks, to enqueue,
// to look, to call off, and what tasks do by SQL. With operator it gives also what operators do by SQL; in this version
// there is nothing of that kind.
func Grants(schemaName, role string, operator bool) string {
	const producer = `-- to insert tasks, RETURNING id, to look at them, and to call them off
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT INSERT (type, payload, run_at, priority, region, key, max_attempts, labels, traceparent, created_by),
    SELECT (id) ON {schema}.task TO {role};
GRANT SELECT ON {schema}.tasks TO {role};
GRANT EXECUTE ON FUNCTION
    {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text),
    {schema}.cancel(bigint, text) TO {role};
-- for tasks themselves: signs of life, and effects that happen once
GRANT EXECUTE ON FUNCTION
    {schema}.ping(bigint, bigint, text, jsonb, text, double precision),
    {schema}.hold(bigint, bigint), {schema}.complete(bigint, bigint, jsonb) TO {role};
`
	const operators = `-- --operator adds nothing in this version: there are no functions for operators yet
`
	text := producer
	if operator {
		text += operators
	}
	return strings.NewReplacer("{schema}", schema(schemaName).quoted(), "{role}", quoteIdentifier(role)).Replace(text)
}
