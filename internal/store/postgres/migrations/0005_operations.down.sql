DROP FUNCTION {schema}.call_off_some({schema}.operation, bigint);
DROP FUNCTION {schema}.step_off({schema}.operation, bigint);
DROP FUNCTION {schema}.rollback_batch(bigint, text, boolean);
DROP FUNCTION {schema}.undoable();
DROP FUNCTION {schema}.retry_batch(bigint, text);
DROP FUNCTION {schema}.cancel_batch(bigint, text);
DROP FUNCTION {schema}.operate(bigint, text, text, boolean, text);
DROP FUNCTION {schema}.seal_batch(bigint);
DROP FUNCTION {schema}.lock_batch(bigint);
