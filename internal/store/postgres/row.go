package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// taskRow reads tasks in the columns that shared/task_columns.sql lists, and after them what else a statement returns, as the
// documents. What nearly every row has in common is NULL there, which costs next to nothing to send and to read: a claim hands
// out a hundred thousand rows a second.
type taskRow struct {
	cells
	names map[string]string // so that rows of one type share its name
}

// next reads the row that rows stands at.
func (r *taskRow) next(rows pgx.Rows) task.Task {
	r.at(rows)
	t := task.Task{
		ID: task.ID(r.int(0)), Type: r.name(), State: task.State(r.text(string(task.StateRunning))),
		Fence: task.Fence(r.int(0)), Attempt: int(r.int(1)), MaxAttempts: int(r.int(0)),
		Deferrals: int(min(max(r.int(0), 0), store.MaxAttempt)), EverStarted: r.bool(),
		Key: r.text(""), Region: r.text(""), Priority: int(r.int(0)), Traceparent: r.text(""), CreatedBy: r.text(""),
	}
	if outcome, reason := r.text(""), r.text(""); outcome != "" {
		t.Previous = &task.Previous{Outcome: task.Verdict(outcome), Error: reason}
	}
	t.Policy, t.CreatedAt, t.RunAt = task.PolicyHash(r.int(0)), r.time(), r.time()
	if t.CreatedAt.IsZero() {
		t.CreatedAt = t.RunAt
	}
	t.ClaimedAt, t.LeaseEnd, t.Deadline = r.time(), r.time(), r.time()
	t.Batch, t.Round, t.Cause = task.BatchID(r.int(0)), int(r.int(0)), task.Verdict(r.text(""))
	t.Lock, t.Sequence, t.Tenant, t.HasAfter, t.Spilled = r.text(""), r.text(""), r.text(""), r.bool(), r.bool()
	return t
}

// documents reads the documents of the row.
func (r *taskRow) documents(t *task.Task) {
	t.Payload, t.RollbackPayload, t.Result, t.Checkpoint, t.Labels = r.bytes(), r.bytes(), r.bytes(), r.bytes(), r.bytes()
}

// name is text that many rows have in common.
func (r *taskRow) name() string {
	v, _ := r.cell()
	if s, ok := r.names[string(v)]; ok {
		return s
	}
	if r.names == nil {
		r.names = make(map[string]string)
	}
	s := string(v)
	r.names[s] = s
	return s
}

// cells reads the values of a row one after another, in the form that the server sends when it is not asked to spell
// them out; all else is left to pgx. NULL is what the caller says, or zero. The first error stays.
type cells struct {
	known  *pgtype.Map
	fields []pgconn.FieldDescription
	values [][]byte
	place  int
	err    error
}

// at begins a row.
func (c *cells) at(rows pgx.Rows) {
	if c.known == nil {
		c.known, c.fields = rows.Conn().TypeMap(), rows.FieldDescriptions()
	}
	c.values, c.place = rows.RawValues(), 0
}

// cell takes the next value; it is valid until the next row.
func (c *cells) cell() (value []byte, plain bool) {
	if c.place >= len(c.values) {
		c.fail(fmt.Errorf("there are %d columns", len(c.values)))
		return nil, false
	}
	c.place++
	return c.values[c.place-1], c.fields[c.place-1].Format == pgtype.BinaryFormatCode
}

func (c *cells) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("read column %d: %w", c.place, err)
	}
}

// int reads any of the integers.
func (c *cells) int(null int64) int64 {
	v, plain := c.cell()
	switch {
	case v == nil:
		return null
	case plain && len(v) == 8:
		return int64(binary.BigEndian.Uint64(v))
	case plain && len(v) == 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case plain && len(v) == 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		c.fail(err)
	}
	return n
}

func (c *cells) bool() bool {
	v, _ := c.cell()
	return len(v) == 1 && (v[0] == 1 || v[0] == 't')
}

// text reads text. It looks the same in both forms.
func (c *cells) text(null string) string {
	if v, _ := c.cell(); v != nil {
		return string(v)
	}
	return null
}

// bytes reads JSON; nil: NULL.
func (c *cells) bytes() []byte {
	v, plain := c.cell()
	if plain && len(v) > 0 { // a version comes first, and pgx does not ask for this form
		v = v[1:]
	}
	return append([]byte(nil), v...)
}

// time reads a time, in UTC; NULL is the zero time, and so is infinity, which only a superuser can have put there.
func (c *cells) time() time.Time {
	v, plain := c.cell()
	if v == nil {
		return time.Time{}
	}
	if plain && len(v) == 8 {
		if us := int64(binary.BigEndian.Uint64(v)); us != math.MaxInt64 && us != math.MinInt64 {
			return time.UnixMicro(us + epoch).UTC()
		}
		return time.Time{}
	}
	if strings.HasSuffix(string(v), "infinity") {
		return time.Time{}
	}
	var t time.Time
	f := c.fields[c.place-1]
	if err := c.known.Scan(f.DataTypeOID, f.Format, v, &t); err != nil {
		c.fail(err)
	}
	return t
}

// epoch is 2000-01-01, from which the server counts, in microseconds since 1970.
const epoch = 946_684_800_000_000
