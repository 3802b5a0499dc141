-- Where a claim finds the want of a row that it takes; claim_tenants.sql, whose wants differ in their tenants alone, joins one of them.
want
