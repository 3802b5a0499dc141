DROP FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text);
DROP VIEW {schema}.tasks;
DROP TABLE {schema}.setting, {schema}.policy, {schema}.agent, {schema}.attempt, {schema}.task_archive, {schema}.task;
DROP FUNCTION {schema}.task_inserted();
