DROP FUNCTION {schema}.fold(bigint);
DROP FUNCTION {schema}.end_batch({schema}.batch);
DROP FUNCTION {schema}.follow_failure({schema}.batch);
DROP FUNCTION {schema}.sum_up(bigint, bigint);
