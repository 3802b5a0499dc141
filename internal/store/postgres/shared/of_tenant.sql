-- Which rows a claim looks for: those without a tenant; claim_tenants.sql has the tenant's name.
IS NULL
