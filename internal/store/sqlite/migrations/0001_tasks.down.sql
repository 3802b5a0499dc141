DROP VIEW enqueue;
DROP VIEW tasks;
DROP TABLE sign;
DROP TABLE policy;
DROP TABLE agent;
DROP TABLE attempt;
DROP TABLE task_archive;
DROP TABLE task;
