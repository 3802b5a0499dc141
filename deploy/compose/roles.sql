-- The roles of ../compose.yaml. The owner of the schema migrates it, and grants the others what they need (migrate up --grant-agent
-- --grant-application). None of them is a superuser.
CREATE ROLE leasehold_owner LOGIN PASSWORD 'leasehold_owner';
CREATE ROLE leasehold_agent LOGIN PASSWORD 'leasehold_agent';
GRANT pg_read_all_stats TO leasehold_agent; -- so that doctor sees the transactions of all roles
CREATE SCHEMA leasehold AUTHORIZATION leasehold_owner;

-- The application has tables of its own.
CREATE ROLE application LOGIN PASSWORD 'application';
GRANT CREATE ON SCHEMA public TO application;
