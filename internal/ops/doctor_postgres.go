package ops

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Bounds from which on a server is not as it should be.
const (
	deadRows        = 50_000          // of the hot table, and more than there are live ones
	slotBehind      = 1_000_000       // transactions
	clockNoticed    = 2 * time.Second // between this machine and the server
	clockWrong      = time.Minute     // likewise: signatures of webhooks are refused from five minutes on
	connectionsFull = 0.9             // of a limit
	oldestServer    = 140_000         // server_version_num
)

func postgresChecks() []check {
	return []check{
		{"read_only", store.PartServer, (*examination).readOnly},
		{"server_version", store.PartServer, (*examination).serverVersion},
		{"privileges", store.PartServer, (*examination).privileges},
		{"oldest_transaction", store.PartServer, (*examination).oldestTransaction},
		{"replication_slot", store.PartServer, (*examination).replicationSlots},
		{"dead_rows", store.PartServer, (*examination).deadRows},
		{"autovacuum", store.PartServer, (*examination).autovacuum},
		{"partitions", store.PartServer, (*examination).partitions},
		{"clock_difference", store.PartServer, (*examination).clockDifference},
		{"connections", store.PartServer, (*examination).connections},
		{"pooler", store.PartServer, (*examination).pooler},
	}
}

// roleChecks come after all others: what they find is a choice, and no fault.
func roleChecks() []check {
	return []check{{"agent_role", store.PartServer, (*examination).agentRole}}
}

func (x *examination) readOnly() []Finding {
	if x.Postgres.ReadOnly == "" {
		return nil
	}
	return one(Problem, "the server is read-only: "+x.Postgres.ReadOnly,
		"connect to the primary (--store, LEASEHOLD_STORE or the store block), or set default_transaction_read_only = off for the role")
}

func (x *examination) serverVersion() []Finding {
	if x.Postgres.Version >= oldestServer {
		return nil
	}
	return one(Problem, fmt.Sprintf("the server is PostgreSQL %d", x.Postgres.Version/10_000), "upgrade it to PostgreSQL 14 or later")
}

func (x *examination) privileges() (found []Finding) {
	p := x.Postgres
	if p.IsAgent && len(p.Lacking) > 0 {
		found = append(found, Finding{
			Severity: Problem, About: OneLine(p.Role, mostName), Remedy: "as the owner of the schema run what `leasehold migrate grants --agent --role " +
				ShellQuote(p.Role) + "` prints",
			What: fmt.Sprintf("role %s may change tasks, as agents do, and lacks a privilege on %s", OneLine(p.Role, mostName), list(p.Lacking)),
		})
	}
	if p.Hidden > 0 {
		found = append(found, Finding{
			Severity: Notice, About: OneLine(p.Role, mostName), Remedy: "GRANT pg_read_all_stats TO " + quoteRole(p.Role) + ";",
			What: fmt.Sprintf("role %s may not see what %d sessions of other roles do, such as their transactions", OneLine(p.Role, mostName), p.Hidden),
		})
	}
	return found
}

// agentRole finds that agents which connect as doctor does could do more than they need.
func (x *examination) agentRole() []Finding {
	p := x.Postgres
	role := OneLine(p.Role, mostName)
	f := Finding{
		Severity: Notice, About: role,
		Remedy: "connect agents as a role of their own: CREATE ROLE leasehold_agent LOGIN; and, as the owner of the schema, " +
			"leasehold migrate up --grant-agent leasehold_agent",
	}
	switch {
	case p.Super:
		f.What = fmt.Sprintf("role %s is a superuser: an agent that connects as it can change everything on the server", role)
	case p.Owner:
		f.What = fmt.Sprintf("role %s owns the schema: an agent that connects as it can drop tables and replace functions", role)
	default:
		return nil
	}
	return []Finding{f}
}

// quoteRole quotes the name of a role for SQL.
func quoteRole(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func (x *examination) oldestTransaction() []Finding {
	t := x.Postgres.Oldest
	if t == nil || x.Now.Sub(t.Since) < x.OldestTransaction {
		return nil
	}
	const harm = ": dead rows of all tables stay until it ends, and claims get slower"
	f := Finding{Severity: Problem, Since: &t.Since}
	user := OneLine(t.User, mostName)
	if t.Prepared != "" {
		f.About = OneLine(t.Prepared, mostName)
		f.What = fmt.Sprintf("the prepared transaction %s of %s is open %s%s", f.About, user, clock(x.Now, t.Since), harm)
		f.Remedy = fmt.Sprintf("COMMIT PREPARED '%s'; or ROLLBACK PREPARED '%[1]s';", strings.ReplaceAll(t.Prepared, "'", "''"))
		return []Finding{f}
	}
	f.About = fmt.Sprintf("pid %d", t.PID)
	f.What = fmt.Sprintf("a transaction of %s (%s, %s, %s) is open %s%s", user, f.About, orDash(OneLine(t.Application, mostName)), t.State,
		clock(x.Now, t.Since), harm)
	f.Remedy = fmt.Sprintf("end it in its program, or SELECT pg_terminate_backend(%d); idle_in_transaction_session_timeout bounds the next one", t.PID)
	return []Finding{f}
}

// orDash is a text, or what says that there is none.
func orDash(s string) string {
	if s == "" {
		return "no application name"
	}
	return s
}

// replicationSlots finds the slot that keeps the oldest rows, and those that are not in use and keep much of the log.
func (x *examination) replicationSlots() []Finding {
	found := x.replicationSlot()
	for _, s := range x.Postgres.Unused {
		name := OneLine(s.Name, mostName)
		if len(found) > 0 && found[0].About == name {
			continue // to drop it is the remedy of that, too
		}
		f := Finding{Severity: Problem, About: name}
		drop := dropSlot(s.Name)
		if s.Lost {
			f.Severity, f.Remedy = Notice, drop
			f.What = fmt.Sprintf("replication slot %s has lost the write-ahead log that it needs: nothing can use it any more", name)
		} else {
			f.Remedy = "start its standby or subscriber, or " + drop + " max_slot_wal_keep_size bounds what slots keep"
			f.What = fmt.Sprintf("nothing uses replication slot %s, which keeps %s of the write-ahead log: the disk fills up", name,
				bytesText(uint64(s.Bytes)))
		}
		found = append(found, f)
	}
	return found
}

// dropSlot is the statement that drops a replication slot.
func dropSlot(name string) string {
	return fmt.Sprintf("SELECT pg_drop_replication_slot('%s');", strings.ReplaceAll(name, "'", "''"))
}

func (x *examination) replicationSlot() []Finding {
	s := x.Postgres.Slot
	if s == nil || s.Active && s.Transactions < slotBehind {
		return nil
	}
	name := OneLine(s.Name, mostName)
	f := Finding{Severity: Problem, About: name}
	if s.Active {
		f.What = fmt.Sprintf("replication slot %s keeps dead rows of the last %s transactions, for a long query on its standby",
			name, Thousands(s.Transactions))
		f.Remedy = "end the query on the standby, or turn hot_standby_feedback off there"
		return []Finding{f}
	}
	f.What = fmt.Sprintf("no standby uses replication slot %s, which keeps dead rows of all tables", name)
	f.Remedy = "start the standby, or " + dropSlot(s.Name)
	return []Finding{f}
}

func (x *examination) deadRows() []Finding {
	p := x.Postgres
	if p.Dead < deadRows || p.Dead <= p.Live {
		return nil
	}
	vacuumed := "it was never vacuumed"
	if p.Vacuumed != nil {
		vacuumed = "it was last vacuumed " + Age(x.Now.Sub(*p.Vacuumed)) + " ago"
	}
	return []Finding{{
		Severity: Problem, About: "task", Since: p.Vacuumed, What: fmt.Sprintf("the table task has about %s dead rows and %s live ones; %s",
			Thousands(p.Dead), Thousands(p.Live), vacuumed),
		Remedy: fmt.Sprintf("end old transactions, and VACUUM %s.task;", quoteRole(p.Schema)),
	}}
}

func (x *examination) autovacuum() []Finding {
	switch x.Postgres.AutovacuumOff {
	case "server":
		return one(Problem, "autovacuum is off on the server: dead rows stay, and claims get slower",
			"ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();")
	case "statistics":
		return one(Problem, "track_counts is off, without which autovacuum does nothing", "ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf();")
	case "table":
		return one(Problem, "autovacuum is off for the table task: dead rows stay, and claims get slower",
			fmt.Sprintf("ALTER TABLE %s.task RESET (autovacuum_enabled);", quoteRole(x.Postgres.Schema)))
	}
	return nil
}

// partitions finds days without a partition. Agents make these, so that a store on which none has run yet lacks them, and nothing of it is wrong.
func (x *examination) partitions() (found []Finding) {
	if x.Fresh {
		return nil
	}
	for _, day := range x.Postgres.Archive {
		date := day.UTC().Format(time.DateOnly)
		found = append(found, Finding{
			Severity: Problem, About: date, What: fmt.Sprintf("task_archive has no partition for %s (UTC): from then on tasks cannot finish", date),
			Remedy: fmt.Sprintf("run an agent, which makes partitions ahead, or SELECT %s.ensure_partition('%s');", quoteRole(x.Postgres.Schema), date),
		})
	}
	return found
}

func (x *examination) clockDifference() []Finding {
	behind := x.sent.Sub(x.Now) // at least, as the store read its clock between the two
	ahead := x.Now.Sub(x.received)
	off, way := behind, "behind"
	if ahead > behind {
		off, way = ahead, "ahead of"
	}
	f := Finding{Severity: Notice, Remedy: "have NTP set both clocks"}
	switch {
	case off < clockNoticed:
		return nil
	case off >= clockWrong:
		f.Severity = Problem
	}
	f.What = fmt.Sprintf("the server's clock is %s %s that of this machine", Duration(off), way)
	return []Finding{f}
}

func (x *examination) connections() (found []Finding) {
	p := x.Postgres
	for _, c := range []struct {
		store.Connections

		what, remedy string
	}{
		{p.Server, "the server allows (max_connections)", "raise max_connections, lower store.connections of agents, or use a pooler"},
		{p.Database, "the database allows", "ALTER DATABASE … CONNECTION LIMIT, or lower store.connections of agents"},
		{p.OfRole, "role " + OneLine(p.Role, mostName) + " may have",
			"ALTER ROLE " + quoteRole(p.Role) + " CONNECTION LIMIT …, or lower store.connections of agents"},
	} {
		if c.Most >= 0 && float64(c.Used) >= connectionsFull*float64(c.Most) {
			found = append(found, Finding{
				Severity: Problem, What: fmt.Sprintf("%d of the %d connections are in use that %s", c.Used, c.Most, c.what), Remedy: c.remedy,
			})
		}
	}
	return found
}

func (x *examination) pooler() []Finding {
	if !x.Postgres.Silent {
		return nil
	}
	return one(Problem, "notifications do not arrive: a pooler in transaction mode is in between, and agents find new tasks by polling",
		"connect agents to the server itself, or set notify = false in the store block")
}
