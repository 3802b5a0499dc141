package webhook

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// BenchmarkRunMany runs requests of a hundred tasks at an endpoint that parses each and answers with a line for each. One
// operation is one task.
func BenchmarkRunMany(b *testing.B) {
	const tasks = 100
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var doc struct {
			Data struct {
				Tasks []struct {
					Task struct{ ID int64 }
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			b.Error(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", ndjsonType)
		line := make([]byte, 0, 64)
		for _, t := range doc.Data.Tasks {
			line = append(strconv.AppendInt(append(line[:0], `{"id":`...), t.Task.ID, 10), ",\"result\":{\"ok\":true}}\n"...)
			_, _ = w.Write(line)
		}
	}))
	defer server.Close()
	c := New(Options{Workers: 4, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	w := batched(server.URL)
	typ := declared(w)
	b.ReportAllocs()
	for n := 0; n < b.N; n += tasks {
		ls := make([]*lease.Lease, tasks)
		for i := range ls {
			ls[i] = exectest.Attempt{Task: task.Task{ID: task.ID(i + 1)}, Policy: task.Policy{Timeout: 20 * time.Second}}.Lease()
		}
		c.RunMany(ls, typ, w, func(i int, o task.Outcome) {
			if o.Verdict != task.Succeeded {
				b.Error(o)
			}
			ls[i].Close()
		})
	}
}
