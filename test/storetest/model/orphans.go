package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// declaredBy returns the present sessions with workers that declare a type, by name of their agents.
func (s *Store) declaredBy(typ string, now time.Time) (names []string) {
	for session, a := range s.agents {
		if s.present(session, now) && a.Workers > 0 && slices.Contains(a.Types, typ) {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Orphans lists the types of waiting rows that no present agent with workers declares. The model has the bound of the counts alone.
func (s *Store) Orphans(ctx context.Context) (all store.OrphanList, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return all, err
	}
	defer s.mu.Unlock()
	of := map[string]*store.OrphanType{}
	for _, r := range s.live {
		if of[r.Type] == nil {
			of[r.Type] = &store.OrphanType{Type: r.Type}
		}
		o := of[r.Type]
		if r.State.Running() {
			o.Running++
			continue
		}
		o.Waiting++
		if o.Oldest.IsZero() || r.CreatedAt.Before(o.Oldest) {
			o.Oldest = r.CreatedAt
		}
	}
	list := &all.List
	for _, o := range of {
		if o.Waiting == 0 || len(s.declaredBy(o.Type, now)) > 0 {
			continue
		}
		if b := s.lastDeclared(o.Type); b != nil {
			at := b.LastAt
			o.DeclaredAt, o.DeclaredBy, o.DeclaredAs = &at, b.LastBy, b.Name
		}
		*list = append(*list, *o)
	}
	slices.SortFunc(*list, func(a, b store.OrphanType) int { return cmp.Compare(a.Type, b.Type) })
	for i, most := 0, int64(store.CountedOf(len(*list))); i < len(*list); i++ {
		o := &(*list)[i]
		o.Capped, o.Waiting = o.Waiting > most, min(o.Waiting, most)
	}
	return all, nil
}

// lastDeclared returns the task type of a name, or with it as an alias, that was loaded last; nil: there is none.
func (s *Store) lastDeclared(typ string) (last *declaredBlock) {
	name, _ := json.Marshal(typ)
	for _, b := range s.blocks {
		if b.Kind == "task" && (b.Name == typ || strings.Contains(b.Fields["aliases"], string(name))) &&
			(last == nil || !b.LastAt.Before(last.LastAt)) {
			last = b
		}
	}
	return last
}

// CancelOrphans cancels some of the waiting rows of a type that no present agent declares.
func (s *Store) CancelOrphans(ctx context.Context, o store.OrphanStep) (done store.OrphansStepped, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return done, err
	}
	defer s.mu.Unlock()
	if err := s.checkOrphans(o, now); err != nil {
		return done, err
	}
	if err := s.fail(beforeSettle); err != nil {
		return done, err
	}
	n := 0
	for _, r := range s.orphansFrom(o, &done, func(r *Row) bool { return r.State.Phase() == task.Run }) {
		if s.kept[r.ID] > 0 && !o.Preview {
			done.Left = append(done.Left, store.OrphanLeft{ID: r.ID, Reason: store.OrphanBusy, Rows: 1})
			continue
		}
		n++
		if r.EverStarted && s.rolledBack(r) {
			done.RollsBack++
		}
		if !o.Preview {
			s.callOff(r, o.By, now, s.rolledBack(r))
			s.audit = append(s.audit, Audit{Who: o.By, Verb: verbCancel, Task: r.ID, Reason: o.Reason, Answer: string(r.State)})
		}
	}
	if done.Changed = n; n > 0 && !o.Preview {
		s.audit = append(s.audit, Audit{Who: o.By, Verb: verbCancel, Type: o.Type, Reason: o.Reason, Answer: fmt.Sprintf("cancelled %d", n)})
	}
	return done, s.fail(afterSettle)
}

// checkOrphans refuses a change of rows that are no orphans.
func (s *Store) checkOrphans(o store.OrphanStep, now time.Time) error {
	switch {
	case o.Type == "" || len(o.Type) > store.MaxType:
		return &store.InputError{Text: "type must have 1 to 255 bytes"}
	case len(o.Reason) > store.MaxReason:
		return &store.InputError{Text: "reason must be 512 bytes at most"}
	}
	if names := s.declaredBy(o.Type, now); len(names) > 0 {
		return refused("agent %q declares the type %q: its tasks are no orphans", names[0], o.Type)
	}
	return nil
}

// orphansFrom returns the next waiting rows of the type that are wanted, and notes where the step ends.
func (s *Store) orphansFrom(o store.OrphanStep, done *store.OrphansStepped, wanted func(*Row) bool) (rows []*Row) {
	done.Next, done.Done = o.From, true
	for i, r := range s.rows(func(r *Row) bool { return r.ID > o.From.ID }) {
		hit := r.Type == o.Type && r.State.Waiting() && wanted(r)
		if i == store.OrphansSeen || hit && len(rows) == store.OrphansChanged {
			done.Done = false
			break
		}
		if hit {
			rows = append(rows, r)
		}
		done.Next.ID = r.ID
	}
	return rows
}
