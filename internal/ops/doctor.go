package ops

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Severity says whether a finding makes a Checkup unhealthy.
type Severity string

// The severities.
const (
	Problem Severity = "problem" // something is wrong, and does not get right without an operator
	Notice  Severity = "notice"  // worth knowing: it was meant, ends without an operator, or could not be looked at
)

// Finding is something that is not as it should be.
type Finding struct {
	Name     string     `json:"name"` // of the check: stable
	Severity Severity   `json:"severity"`
	About    string     `json:"about,omitempty"` // the agent, type, schedule, … that it is about
	What     string     `json:"what"`
	Since    *time.Time `json:"since,omitempty"` // where that is known
	Remedy   string     `json:"remedy"`          // a command or a setting
}

// Checkup is what doctor found.
type Checkup struct {
	Healthy  bool      `json:"healthy"`  // there is no problem
	Checked  []string  `json:"checked"`  // the checks that were made, by name; not nil
	Findings []Finding `json:"findings"` // problems first, and then in the order of the checks; not nil
}

// DoctorOptions are what an operator may set.
type DoctorOptions struct {
	OldestTransaction time.Duration // a transaction that is open for longer is a problem; 0: OldTransaction
}

// OldTransaction is the default of DoctorOptions.OldestTransaction.
const OldTransaction = 10 * time.Minute

// mostFindings bounds the findings of one check; the last one says how many more there are.
const mostFindings = 5

// Diagnoser is what Doctor needs of a store.
type Diagnoser interface {
	// Diagnose reads what the store knows of its own health. Each part is bounded in rows and time; one that could not be read is named. The error
	// is that of Ping: the store is out of reach, refuses the role, or its schema does not admit this binary.
	Diagnose(ctx context.Context) (*store.Diagnosis, error)
	// Halted counts what an operator has to act on, for metrics: two of the parts that Diagnose reads.
	Halted(ctx context.Context) (store.Halted, error)
}

// check is one thing that is looked at.
type check struct {
	name string              // of its findings
	part store.DiagnosisPart // that it looks at
	look func(*examination) []Finding
}

// examination is what checks look at.
type examination struct {
	*store.Diagnosis
	DoctorOptions

	sent, received time.Time // by this machine's clock, around the Diagnosis
}

// Doctor examines a store, and the agents on it. now is this machine's clock.
func Doctor(ctx context.Context, s Diagnoser, o DoctorOptions, now func() time.Time) Checkup {
	sent := now()
	d, err := s.Diagnose(ctx)
	if err != nil {
		return Unusable(err)
	}
	return Examine(d, o, sent, now())
}

// Unusable is what is found of a store that could not be opened or read.
func Unusable(err error) Checkup {
	f := Finding{Name: "store", Severity: Problem, What: "the store cannot be used: " + err.Error()}
	var schema *store.SchemaError
	var access *store.AccessError
	checked := []string{"store"}
	switch {
	case errors.As(err, &schema):
		checked = append(checked, "schema")
		f.Name, f.What, f.Remedy = "schema", schema.Error(), "leasehold migrate up"
		if !schema.Outdated() {
			f.Remedy = "use a newer leasehold, or `leasehold migrate down` with the newer one"
		}
	case errors.As(err, &access):
		f.What, f.Remedy = access.Text, "correct the role, or the store's URL (--store, LEASEHOLD_STORE or the store block)"
	default:
		f.Remedy = "correct the store's URL (--store, LEASEHOLD_STORE or the store block), or start its server"
	}
	return Checkup{Checked: checked, Findings: []Finding{f}}
}

// Examine says what follows from a diagnosis that was asked for and came at these times of this machine's clock.
func Examine(d *store.Diagnosis, o DoctorOptions, sent, received time.Time) Checkup {
	if o.OldestTransaction == 0 {
		o.OldestTransaction = OldTransaction
	}
	x := &examination{d, o, sent, received}
	c := Checkup{Checked: []string{"store", "schema"}, Findings: []Finding{}}
	for _, k := range checksOf(d) {
		if slices.ContainsFunc(d.Unseen, func(u store.UnseenPart) bool { return u.Part == k.part }) {
			continue
		}
		c.Checked = append(c.Checked, k.name)
		c.add(k.name, k.look(x))
	}
	c.add("unseen", x.unseen())
	slices.SortStableFunc(c.Findings, func(a, b Finding) int { return rank(a) - rank(b) })
	c.Healthy = len(c.Findings) == 0 || c.Findings[0].Severity != Problem
	return c
}

func rank(f Finding) int {
	if f.Severity == Problem {
		return 0
	}
	return 1
}

// add adds the findings of a check, mostFindings at most.
func (c *Checkup) add(name string, found []Finding) {
	slices.SortStableFunc(found, func(a, b Finding) int { return rank(a) - rank(b) })
	for i, f := range found[:min(len(found), mostFindings)] {
		f.Name = name
		if more := len(found) - mostFindings; i == mostFindings-1 && more > 0 {
			f.What += "; and " + andMore(more)
		}
		c.Findings = append(c.Findings, f)
	}
}

// andMore writes how many findings of a check are not shown.
func andMore(n int) string {
	if n+mostFindings > store.DiagnosisListed {
		return "many more like it"
	}
	return Thousands(int64(n)) + " more like it"
}

// checksOf lists the checks that a store of that kind admits, in their order.
func checksOf(d *store.Diagnosis) []check {
	var list, last []check
	switch {
	case d.Postgres != nil && d.Postgres.ReadOnly != "":
		return []check{{"read_only", store.PartServer, (*examination).readOnly}}
	case d.Postgres != nil:
		list, last = postgresChecks(), roleChecks()
	case d.File != nil:
		list = fileChecks()
	}
	return slices.Concat(list, agentChecks(), workChecks(), last)
}

// unseen says what could not be looked at.
func (x *examination) unseen() (found []Finding) {
	var denied, late []string
	for _, u := range x.Unseen {
		if u.Denied {
			denied = append(denied, string(u.Part))
		} else {
			late = append(late, string(u.Part))
		}
	}
	if len(denied) > 0 {
		found = append(found, Finding{
			Severity: Notice, About: list(denied), Remedy: x.Grant,
			What: "the role may not read what these checks need: " + list(denied),
		})
	}
	if len(late) > 0 {
		found = append(found, Finding{
			Severity: Notice, About: list(late), Remedy: "run it again when the store has less to do",
			What: "these checks took longer than " + Age(store.DiagnosisTime) + " and were given up: " + list(late),
		})
	}
	return found
}

// one is the findings of a check that has one at most; what is "" where nothing is wrong.
func one(severity Severity, what, remedy string) []Finding {
	if what == "" {
		return nil
	}
	return []Finding{{Severity: severity, What: what, Remedy: remedy}}
}
