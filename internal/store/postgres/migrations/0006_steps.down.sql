DROP FUNCTION {schema}.step(bigint);
DROP FUNCTION {schema}.step_one({schema}.operation);
DROP FUNCTION {schema}.step_rollback({schema}.operation, bigint);
DROP FUNCTION {schema}.step_retry({schema}.operation, bigint);
DROP FUNCTION {schema}.step_back(bigint[], timestamptz[], text);
