package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// activityKey names a row of the activity.
type activityKey struct {
	step    store.ActivityStep
	at      time.Time
	typ     string
	session task.Session
}

// KeepActivity sets what a session has counted.
func (s *Store) KeepActivity(ctx context.Context, session task.Session, rows []store.ActivityRow) (dropped int, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for _, r := range rows {
		if r.At.After(now.Add(store.ActivityAhead)) || !r.At.After(now.Add(-r.Step.Kept())) {
			dropped++
			continue
		}
		s.activity[activityKey{r.Step, r.At.UTC(), r.Type, session}] = r.ActivityCounts
	}
	return dropped, nil
}

// Activity returns what all sessions have counted in so many intervals up to now.
func (s *Store) Activity(ctx context.Context, step store.ActivityStep, intervals int, typ string) (a store.Activity, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return a, err
	}
	defer s.mu.Unlock()
	from, last := store.ActivityWindow(step, intervals, now)
	within := func(k activityKey) bool {
		return k.step == step && !k.at.Before(from) && !k.at.After(last) && (typ == "" || k.typ == typ)
	}
	attempts := map[string]int64{}
	for k, c := range s.activity {
		if within(k) && k.typ != "" {
			attempts[k.typ] += c.Started() + c.Ended()
		}
	}
	top := slices.SortedFunc(maps.Keys(attempts), func(x, y string) int {
		return cmp.Or(cmp.Compare(attempts[y], attempts[x]), strings.Compare(x, y))
	})
	top = top[:min(len(top), store.ActivityTop)]
	sums := map[activityKey]*store.ActivitySum{}
	for k, c := range s.activity {
		if !within(k) {
			continue
		}
		k.session = 0
		if !slices.Contains(top, k.typ) {
			k.typ = ""
		}
		if sums[k] == nil {
			sums[k] = &store.ActivitySum{At: k.at, Type: k.typ}
		}
		sums[k].Add(&c)
	}
	a.Now, a.From = now.UTC(), from
	for _, sum := range sums {
		a.Rows = append(a.Rows, *sum)
	}
	slices.SortFunc(a.Rows, func(x, y store.ActivitySum) int { return cmp.Or(x.At.Compare(y.At), strings.Compare(x.Type, y.Type)) })
	return a, nil
}

// forgetActivity removes what is past its time, or what no clock may have shown yet. s.mu is held.
func (s *Store) forgetActivity(now time.Time) {
	maps.DeleteFunc(s.activity, func(k activityKey, _ store.ActivityCounts) bool {
		return !k.at.After(now.Add(-k.step.Kept())) || k.at.After(now.Add(store.ActivityAhead))
	})
}
