DROP FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text);
DROP VIEW {schema}.tasks;
DROP TABLE {schema}.setting, {schema}.removal, {schema}.policy, {schema}.agent, {schema}.attempt, {schema}.task_archive, {schema}.task;
DROP FUNCTION {schema}.task_inserted();
DROP FUNCTION {schema}.drop_partition(date);
DROP FUNCTION {schema}.detach_partition(date);
DROP FUNCTION {schema}.make_place(timestamptz);
DROP FUNCTION {schema}.lock_holders(regclass);
