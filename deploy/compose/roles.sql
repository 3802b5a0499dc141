-- The roles of ../compose.yaml. The agents' role owns its schema and nothing else, so that `migrate up` can create the tables; it is
-- not a superuser. For separate roles for the owner and the agents see docs/operations.md.
CREATE ROLE leasehold LOGIN PASSWORD 'leasehold';
CREATE SCHEMA leasehold AUTHORIZATION leasehold;

-- The application has tables of its own. What it may do in the schema leasehold is granted by grants.sql, once there are tables.
CREATE ROLE application LOGIN PASSWORD 'application';
GRANT CREATE ON SCHEMA public TO application;
