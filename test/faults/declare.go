//go:build linux

package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// Lengths of what is declared: short, so that much happens.
const (
	Presence = 3 * time.Second
	grace    = 300 * time.Millisecond
	// Stop is what may pass between the end of a window and its lease's end: the grace, and 2 s.
	Stop = grace + 2*time.Second
	// Limit is how many attempts of a row may count, and RollbackLimit how many to roll it back.
	Limit         = 31
	RollbackLimit = 12
	deferrals     = 6                      // how often in a row being asked to come later is free
	backoff       = 300 * time.Millisecond // the longest
	checkTime     = time.Second
	// someWorkers is how many rows of a type an agent runs at once, where a run does not say.
	someWorkers = 4
	// eachCapped is the limit of each tenant of the type that has such.
	eachCapped = 2
	// capped is the limit of the type that has one: fewer than what three agents run at once.
	capped = 5
)

// Types that mean something to who makes rows and runs them.
const (
	kindFinish  = "finish"  // the finish task of a batch
	kindReserve = "reserve" // a webhook under hold, which is rolled back so; what is done already is not done again
	kindCharge  = "charge"  // a webhook that completes its task itself, and its rollback
	kindMount   = "mount"   // the same as processes
	kindBuild   = "build"
	kindServe   = "serve"   // workers
	kindStamp   = "stamp"   // workers under hold, with a check and a rollback
	kindBundle  = "bundle"  // webhooks whose requests have several attempts
	kindParcel  = "parcel"  // the same under hold, with a check and a rollback
	kindFreight = "freight" // the same that complete their tasks themselves, and roll them back
	kindCapped  = "capped"  // webhooks of which no more than capped run at once, on all agents
	kindShared  = "shared"  // the same, of each of its tenants
	kindChained = "chained" // webhooks with sequences that a failure blocks
	kindGrave   = "grave"   // rows for tasks that have failed (on_failed); no agent declares it: see journalSQL
	kindPress   = "press"   // workers that complete their tasks themselves, and roll them back
)

// WithWorkers are the types whose commands are workers.
func WithWorkers() []string { return []string{kindServe, kindStamp, kindPress} }

// InBundles are the types whose requests have several attempts.
func InBundles() []string { return []string{kindBundle, kindParcel, kindFreight} }

// WithRollback are the types that can be rolled back.
func WithRollback() []string {
	return []string{kindReserve, kindCharge, kindMount, kindBuild, kindStamp, kindPress, kindParcel, kindFreight}
}

// rolledBack are those of them that the run has. Its children can connect to PostgreSQL only.
func (w *world) rolledBack() []string {
	if w.o.SQLite {
		return []string{kindReserve, kindCharge}
	}
	return WithRollback()
}

// Kinds are the types that are declared.
func Kinds() map[string]history.Kind {
	all := map[string]history.Kind{}
	for _, name := range []string{
		kindNode, "plain", "held", "completed", "accepted", "streamed", "ordered", "child", "steady", "patient", kindFinish, kindMark,
		kindReserve, kindCharge, kindMount, kindBuild, kindServe, kindStamp, kindPress, kindBundle, kindParcel, kindFreight, kindFollow, kindCapped, kindShared,
		kindChained, kindFormer, kindRenamed,
	} {
		k := history.Kind{
			Name: name, Heartbeat: time.Second, Stop: Stop, Timeout: 5 * time.Second, Ordered: name == "ordered",
			Backoff: backoff * 5 / 4, Deferrals: deferrals, Finish: name == kindFinish, Chunk: name == kindMark,
			Follow: name == kindFollow, Blocks: name == kindChained,
			Worker: slices.Contains(WithWorkers(), name), Many: slices.Contains(InBundles(), name),
		}
		k.Child = k.Worker || name == "child" || name == kindMount || name == kindBuild
		switch name {
		case "steady":
			k.Heartbeat, k.Timeout = 8*time.Second, 12*time.Second
		case kindCapped:
			k.Most = capped
		case kindShared:
			k.Each = eachCapped
		case "patient":
			k.Heartbeat, k.Timeout = 0, 12*time.Second
		case kindFormer, kindRenamed:
			k.Guard, k.Most = history.Completed, formerMost
			if name == kindRenamed {
				k.Most, k.Timeout = renamedMost, 6*time.Second
			}
		case "held", kindReserve, kindMount, kindStamp, kindParcel:
			k.Guard = history.Held
		case "completed", kindCharge, kindBuild, kindPress, kindFreight:
			k.Guard = history.Completed
		}
		if slices.Contains(WithRollback(), name) || name == kindFormer || name == kindRenamed {
			rollBack := k
			rollBack.Limit = RollbackLimit
			rollBack.Timeout = 4 * time.Second
			k.Rollback = &rollBack
		}
		if name == kindReserve || name == kindMount || name == kindStamp || name == kindParcel {
			k.Check = checkTime
		}
		all[name] = k
	}
	return all
}

// presence is that of the agents.
func (w *world) presence() time.Duration { return cmp.Or(w.o.Presence, Presence) }

// declaration is an agent's configuration.
func (a *agent) declaration(who string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `agent {
  name     = %q
  listen   = "127.0.0.1:0"
  workers  = 24
  presence = %q
  poll     = "200ms"
  drain    = "1s"
}
`, a.name, a.w.presence())
	for _, k := range Kinds() {
		if a.declares(k.Name) {
			text.WriteString(a.declareTask(k, who))
		}
	}
	text.WriteString(a.w.declareChunks(a.ahead()))
	text.WriteString(a.declareWatched())
	return text.String()
}

func (a *agent) declareTask(k history.Kind, who string) string {
	workers := cmp.Or(a.w.o.Workers, someWorkers)
	if k.Ordered {
		workers = 1
	}
	text := fmt.Sprintf("task %q {\n  workers = %d\n%s", k.Name, workers, a.declareWork(k, Limit, who))
	text += fmt.Sprintf("  on_failed = %q\n", kindGrave)
	if most := a.most(k); most > 0 {
		text += fmt.Sprintf("  limit = %d\n", most)
	}
	if k.Name == kindRenamed {
		text += fmt.Sprintf("  aliases = [%q]\n", kindFormer)
	}
	if k.Each > 0 {
		text += fmt.Sprintf("  tenant {\n    limit = %d\n  }\n", k.Each)
	}
	if k.Check > 0 {
		text += fmt.Sprintf("  check {\n  timeout = %q\n%s  }\n", k.Check, a.declareTarget(alone(k), who, false))
	}
	if k.Blocks {
		text += "  sequence {\n    on_failure = \"block\"\n  }\n"
	} else if slices.Contains(sequencedKinds(), k.Name) {
		text += "  sequence {\n    on_failure = \"continue\"\n  }\n"
	}
	if k.Rollback != nil {
		text += "  rollback {\n" + a.declareWork(*k.Rollback, RollbackLimit, who) + "  }\n"
	}
	return text + "}\n"
}

// declareWork is what a run and a rollback say alike.
func (a *agent) declareWork(k history.Kind, limit int, who string) string {
	text := fmt.Sprintf("  timeout = %q\n", k.Timeout)
	if k.Heartbeat > 0 {
		text += fmt.Sprintf("  heartbeat = %q\n", k.Heartbeat)
	}
	text += fmt.Sprintf("  retry {\n    limit = %d\n    min = \"20ms\"\n    max = %q\n    max_deferrals = %d\n  }\n", limit-1, backoff, deferrals)
	return text + a.declareTarget(k, who, k.Name == "accepted")
}

func (a *agent) declareTarget(k history.Kind, who string, async bool) string {
	if k.Child {
		env := fmt.Sprintf("WHO = %q, SEED = %q", who, strconv.FormatUint(a.w.o.Seed, 10))
		if k.Guard != "" {
			env += fmt.Sprintf(", GUARD = %q, DATABASE = %q", k.Guard, a.w.direct)
		}
		text := fmt.Sprintf("  command {\n    argv = [%q, %q, %q, %q]\n    env = { %s }\n    stop_grace = %q\n",
			a.w.programs.Child, a.w.logPath, a.w.locks, who, env, grace)
		if k.Worker {
			text += "    worker {\n      processes = 3\n      idle = \"2s\"\n      max_tasks = 15\n      ready = \"5s\"\n    }\n"
		}
		return text + "  }\n"
	}
	text := fmt.Sprintf("  webhook {\n    url = %q\n    cancel_grace = %q\n", "http://"+a.w.endpoint.addr+"/"+who, grace)
	if async {
		text += "    async = true\n"
	}
	if k.Many {
		text += fmt.Sprintf("    batch {\n      max = %d\n      wait = \"20ms\"\n    }\n", mostInOne)
	}
	return text + "  }\n"
}

// alone is a type for requests with one attempt each, as checks are.
func alone(k history.Kind) history.Kind {
	k.Many = false
	return k
}
