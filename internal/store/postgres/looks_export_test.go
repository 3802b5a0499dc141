package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// literal is the text of a statement with its arguments.
func literal(q *sqltext.Query, args ...sqltext.Arg) string {
	text := q.Text
	for i, v := range slices.Backward(q.Args(args...)) {
		if list, ok := v.([]string); ok {
			v = "{" + strings.Join(list, ",") + "}"
		}
		text = strings.ReplaceAll(text, fmt.Sprintf("$%d", i+1), fmt.Sprintf("'%v'", v))
	}
	return text
}

// OrphanTexts are the texts of what a list of orphans reads, of which those types have rows.
func (s *Store) OrphanTexts(t testing.TB, types ...string) map[string]string {
	t.Helper()
	q, err := fillOrphans(s.schema, s.sql.Orphans)
	require.NoError(t, err)
	texts := map[string]string{
		"orphans": literal(q, arg("types", types), arg("most", store.CountedOf(len(types))+1)), "held": literal(s.sql.HeldTypes, arg("most", store.OrphanHeld)),
	}
	for i, where := range append(waitingClasses(), "t.sequence IS NOT NULL") {
		q, err := s.sql.WaitingTypes.Fill("{where}", where)
		require.NoError(t, err)
		texts[fmt.Sprintf("types of class %d", i)] = literal(q, arg("steps", store.OrphanSteps))
	}
	return texts
}

// SequenceTexts are the texts of what a list of sequences reads, from one on.
func (s *Store) SequenceTexts(typ, from string, limit int) map[string]string {
	return map[string]string{
		"find": literal(s.sql.FindSequences, arg("only", ""), arg("type", typ), arg("from", from), arg("limit", limit)),
		"show": literal(s.sql.ShowSequences, arg("types", []string{typ}), arg("names", []string{from}), arg("most", store.CountedOf(1)+2)),
	}
}

// PageTexts are the texts of what a step of a list reads: whether few tasks match, where the window of so many rows begins, and the list.
func (s *Store) PageTexts(t testing.TB, f store.TaskFilter, rows int) map[string]string {
	t.Helper()
	w, err := s.Window(t.Context(), f, rows)
	require.NoError(t, err)
	texts := map[string]string{}
	n, err := newFilter(s.schema, f)
	require.NoError(t, err)
	for name, probes := range map[string][]string{"few live": n.liveProbes(), "few finished": n.finishedProbes()} {
		if len(probes) > 0 {
			q, err := s.sql.Few.Fill("{few}", n.probe(probes))
			require.NoError(t, err)
			texts[name] = literal(q, n.argsOf(q, arg("most", fewRows))...)
		}
	}
	within := f
	within.Window.Span = w.Span
	n, err = newFilter(s.schema, within)
	require.NoError(t, err)
	q, err := n.window(s.sql.Window, w.Few, len(n.finishedProbes()) > 0 && !w.Many)
	require.NoError(t, err)
	if q != nil {
		texts["window"] = literal(q, n.argsOf(q, arg("skip", rows-1))...)
	}
	if w.Span != (store.Span{}) {
		texts["span"] = literal(s.sql.Span, arg("batch", int64(f.Batch)))
	}
	f.Window = w
	q, args, err := s.listQuery(f)
	require.NoError(t, err)
	texts["list"] = literal(q, args...)
	return texts
}

// AuditTexts are the texts of what a list of the audit reads.
func (s *Store) AuditTexts(t testing.TB, f store.AuditFilter) map[string]string {
	t.Helper()
	edge, list, args, err := s.auditQueries(f)
	require.NoError(t, err)
	return map[string]string{
		"edge": literal(edge, edge.Takes(args...)...), "list": literal(list, list.Takes(args...)...),
	}
}
