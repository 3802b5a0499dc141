package batch

import (
	"log/slog"

	"github.com/leasehold/leasehold/internal/store"
)

// logFold logs the batches that completed, and those that are cancelled or rolled back because one of their tasks failed.
func (l *Loop) logFold(f *store.Folded) {
	for i := range f.Acts {
		b := &f.Acts[i]
		l.o.Log.Warn("a task of a batch has failed for good: its on_failure is followed", "batch", b.ID, "name", b.Name, "request", b.State)
	}
	for i := range f.Ends {
		b := &f.Ends[i]
		log := l.o.Log.Info
		switch b.State { // as store.BatchState has them
		case "rollback_failed":
			log = l.o.Log.Error
		case "failed", "partially_failed":
			log = l.o.Log.Warn
		}
		log("batch ended", append(ended(b), counts(b)...)...)
	}
	if n := f.Ended - len(f.Ends); n > 0 {
		l.o.Log.Info("batches ended", "batches", n)
	}
	if n := f.Acted - len(f.Acts); n > 0 {
		l.o.Log.Warn("tasks of batches have failed for good: their on_failure is followed", "batches", n)
	}
}

// ended is a batch and its state.
func ended(b *store.BatchSummary) []any {
	return []any{
		slog.Int64("batch", int64(b.ID)), slog.String("name", b.Name), slog.String("state", b.State),
		slog.Int("round", b.Round), slog.Int64("total", b.Total),
	}
}

// counts are the tasks of a batch by how they ended; what is 0 is left out.
func counts(b *store.BatchSummary) []any {
	var attrs []any
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"succeeded", b.Succeeded}, {"failed", b.Failed}, {"cancelled", b.Cancelled},
		{"rolled_back", b.RolledBack}, {"rollback_failed", b.RollbackFailed},
	} {
		if c.n != 0 {
			attrs = append(attrs, slog.Int64(c.name, c.n))
		}
	}
	return attrs
}

// logStep logs an operation that is over.
func (l *Loop) logStep(s *store.Stepped) {
	attrs := []any{slog.String("verb", s.Verb), slog.Int64("tasks", s.Done)}
	if s.Batch != 0 {
		attrs = append(attrs, slog.Int64("batch", int64(s.Batch)))
	}
	if s.Task != 0 {
		attrs = append(attrs, slog.Int64("task", int64(s.Task)))
	}
	if s.Refused != 0 {
		l.o.Log.Warn("operation ended, and had to leave some tasks as they were", append(attrs, slog.Int64("refused", s.Refused))...)
		return
	}
	l.o.Log.Info("operation ended", attrs...)
}

// logBulk logs a bulk change that is over.
func (l *Loop) logBulk(b *store.Bulk) {
	log, attrs := l.o.Log.Info, []any{slog.Int64("change", b.ID), slog.String("verb", b.Verb), slog.Int64("tasks", b.Done)}
	if b.Refused > 0 {
		log, attrs = l.o.Log.Warn, append(attrs, slog.Int64("refused", b.Refused))
	}
	log("bulk change ended", attrs...)
}
