package check

// TenantLimitHolds says: of each tenant of a type that bounds these no more rows run at once, on all agents together, than the limit says.
//
// It must hold because a claim counts what runs of the tenants while it has the limit of the type locked, and commits before another one counts.
//
// There are no exemptions, as for LimitHolds.
const TenantLimitHolds Name = "TenantLimitHolds"

func tenantLimitHolds(x *index, f *found) {
	for _, s := range x.h.Tenants {
		if most := x.h.Kinds[s.Kind].Each; s.Running > most {
			f.add(TenantLimitHolds, s.At, 0, "%d tasks of tenant %q of type %q ran at once, and the limit is %d", s.Running, s.Tenant, s.Kind, most)
		}
	}
}
