package suite

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// situations are what stands beside those who insert.
func situations() []struct {
	name   string
	beside work.Kind
} {
	return []struct {
		name   string
		beside work.Kind
	}{{"alone", ""}, {"busy", work.Hold}, {"idle", work.Idle}}
}

// inserts measures what the trigger that notifies costs those who insert: with no agent there, beside one that is busy
// with as many rows as it can have, and beside one that is idle but for the rows that come.
func inserts(ctx context.Context, s *Suite) error {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	triggers := []string{"on", "off"}
	for round := range s.Rounds {
		for _, situation := range situations() {
			for i := range triggers {
				trigger := triggers[(i+round)%len(triggers)] // who comes first changes
				run := rig.Inserts{Contender: c, Rows: s.rows(40_000), Beside: situation.beside}
				if trigger == "off" {
					run.SQL = []string{`ALTER TABLE leasehold.task DISABLE TRIGGER task_inserted`}
				}
				if err := s.awaitQuiet(ctx); err != nil {
					return err
				}
				o, err := s.Rig.Insert(ctx, run)
				if err != nil {
					return fmt.Errorf("insert %s, trigger %s: %w", situation.name, trigger, err)
				}
				s.note("insert", situation.name+" "+trigger, c, o)
			}
		}
	}
	return nil
}
