-- Nothing takes this step back.
DROP TABLE {schema}.noted;
