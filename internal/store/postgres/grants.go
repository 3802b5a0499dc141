package postgres

import (
	"strings"
)

// Grants returns the script that grants an application's role what it needs and nothing more: to insert tasks and batches, to
// enqueue, to read, to cancel, what tasks do by SQL, schedules and named leases. With operator it grants also what operators do by
// SQL.
func Grants(schemaName, role string, operator bool) string {
	const producer = `-- to insert tasks and batches, RETURNING id, to look at them, and to cancel tasks
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT INSERT (type, payload, run_at, priority, region, key, max_attempts, labels, traceparent, created_by,
    batch_id, rollback_payload, lock, sequence, after, after_if, tenant), SELECT (id) ON {schema}.task TO {role};
GRANT EXECUTE ON FUNCTION {schema}.task_fits TO {role};
GRANT INSERT (name, on_failure, finish_type, finish_payload, labels, created_by, sealed), SELECT (id)
    ON {schema}.batch TO {role};
GRANT SELECT ON {schema}.tasks, {schema}.batches, {schema}.agents, {schema}.leases, {schema}.chunk_plans, {schema}.chunk_passes,
    {schema}.sequences, {schema}.redactions, {schema}.activities TO {role};
GRANT EXECUTE ON FUNCTION
    {schema}.enqueue, {schema}.enqueue_result,
    {schema}.seal_batch(bigint), {schema}.cancel(bigint, text), {schema}.backlog(text) TO {role};
-- for tasks themselves: pings, and effects that happen once
GRANT EXECUTE ON FUNCTION
    {schema}.ping(bigint, bigint, text, jsonb, text, double precision),
    {schema}.hold(bigint, bigint), {schema}.complete(bigint, bigint, jsonb) TO {role};
-- for schedules: to insert and change them, with ON CONFLICT (name) DO UPDATE too, and to remove them
GRANT INSERT (name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap),
    UPDATE (task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap),
    SELECT (name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap)
    ON {schema}.schedule TO {role};
GRANT SELECT ON {schema}.schedules TO {role};
GRANT EXECUTE ON FUNCTION {schema}.remove_schedule(text, text) TO {role};
-- for named leases
GRANT EXECUTE ON FUNCTION
    {schema}.acquire(text, text, interval), {schema}.renew_lease(text, bigint),
    {schema}.release_lease(text, bigint), {schema}.hold_lease(text, bigint) TO {role};
`
	const operators = `-- for operators
GRANT EXECUTE ON FUNCTION
    {schema}.retry(bigint, text, jsonb), {schema}.rollback(bigint, text), {schema}.cancel_batch(bigint, text),
    {schema}.retry_batch(bigint, text), {schema}.rollback_batch(bigint, text, boolean),
    {schema}.pause_schedule(text, text), {schema}.resume_schedule(text, text),
    {schema}.pause(text, text, text), {schema}.resume(text, text), {schema}.cancel_orphans(text, jsonb, boolean, text, text),
    {schema}.move_orphans(text, text, jsonb, boolean, text, text),
    {schema}.pause_chunks(text, text), {schema}.resume_chunks(text, text), {schema}.order_agent(text, text, text),
    {schema}.sequence_skip(text, text, bigint, text), {schema}.sequence_retry(text, text, bigint, text),
    {schema}.sequence_cancel(text, text, integer, text) TO {role};
GRANT SELECT ON {schema}.type_pause, {schema}.orphans, {schema}.bulk_changes TO {role};
`
	text := producer
	if operator {
		text += operators
	}
	return strings.NewReplacer("{schema}", schema(schemaName).quoted(), "{role}", quoteIdentifier(role)).Replace(text)
}

// AgentGrants is the script that gives a role what an agent needs of a schema that another role owns and migrates: to read
// and write its rows, and to call its functions. It changes nothing but those, and sees no other schema. What a migration
// brings is granted by running the script again.
func AgentGrants(schemaName, role string) string {
	const agents = `-- for agents: run it as the owner of the schema, and again after each migrate up
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
REVOKE INSERT, UPDATE, DELETE ON {schema}.schema_version, {schema}.secret FROM {role};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};
-- A trigger on a table of the role's own would run these with the owner's rights.
REVOKE EXECUTE ON FUNCTION {schema}.task_inserted(), {schema}.batch_stops(), {schema}.schedule_declared(),
    {schema}.schedule_changed(), {schema}.schedule_deleted(), {schema}.sequence_left() FROM {role};
`
	return strings.NewReplacer("{schema}", schema(schemaName).quoted(), "{role}", quoteIdentifier(role)).Replace(agents)
}
