package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasehold/leasehold/internal/task"
)

// Limits of an EnqueueRequest. The store has them too, for those who write SQL.
const (
	MinPriority = -10
	MaxPriority = 10
	MaxAttempts = 1000
	MaxLabels   = 4 << 10 // bytes of JSON
)

// Patience is how much longer than another call an insertion may take: a second for each megabyte of its documents,
// which have to be sent, parsed and compressed.
func (r *EnqueueRequest) Patience() time.Duration {
	return time.Duration((len(r.Payload)+len(r.RollbackPayload))/1_000_000) * time.Second
}

// Check finds what no store would take, and says it better than a database does; its errors are *InputError.
func (r *EnqueueRequest) Check() error {
	wrong := func(format string, args ...any) error { return &InputError{Text: fmt.Sprintf(format, args...)} }
	if r.Type == "" {
		return wrong("a task needs a type")
	}
	for what, s := range map[string]string{
		"type": r.Type, "key": r.Key, "region": r.Region, "traceparent": r.Traceparent, "created_by": r.CreatedBy,
		"lock": r.Lock, "sequence": r.Sequence, "tenant": r.Tenant,
	} {
		if !Storable(s) {
			return wrong("%s %q: text must be UTF-8 without NUL", what, s)
		}
	}
	if err := errors.Join(checkJSON("payload", r.Payload, wrong), checkJSON("rollback payload", r.RollbackPayload, wrong)); err != nil {
		return err
	}
	switch {
	case r.Batch < 0:
		return wrong("batch %d: a batch's number is 1 or more", r.Batch)
	case r.Priority < MinPriority || r.Priority > MaxPriority:
		return wrong("priority %d: use %d to %d, higher first", r.Priority, MinPriority, MaxPriority)
	case r.MaxAttempts < 0 || r.MaxAttempts > MaxAttempts:
		return wrong("max attempts %d: use 1 to %d, or leave it to the type's retry block", r.MaxAttempts, MaxAttempts)
	case r.In < 0:
		return wrong("in %s: a task cannot be due before it is enqueued", r.In)
	case r.In != 0 && !r.RunAt.IsZero():
		return wrong("a due time and a delay were given: use one of them")
	case !r.RunAt.IsZero() && (r.RunAt.Year() < 1 || r.RunAt.Year() > 9999):
		return wrong("due time %s: use a year from 1 to 9999", r.RunAt.Format(time.RFC3339))
	}
	if err := errors.Join(r.checkAfter(wrong), r.checkOnLive(wrong)); err != nil {
		return err
	}
	return checkLabels(r.Labels, wrong)
}

// checkJSON finds what no store would take as a document; nil is none.
func checkJSON(what string, doc json.RawMessage, wrong func(string, ...any) error) error {
	switch {
	case doc != nil && !json.Valid(doc):
		return wrong("the %s is not JSON: %s", what, syntaxError(doc))
	case bytes.Contains(doc, []byte(`\u0000`)) && holdsNUL(doc):
		return wrong("the %s has a NUL character (\\u0000), which a database's JSON cannot hold: leave it out", what)
	}
	return nil
}

func checkLabels(labels map[string]string, wrong func(string, ...any) error) error {
	for k, v := range labels {
		switch {
		case k == "":
			return wrong("a label needs a name: use name=value")
		case !Storable(k) || !Storable(v):
			return wrong("label %q: text must be UTF-8 without NUL", k)
		}
	}
	body, err := json.Marshal(labels)
	if err != nil {
		return wrong("labels: %v", err)
	}
	if len(labels) > 0 && len(body) > MaxLabels {
		return wrong("the labels are %d bytes of JSON: at most %d are kept", len(body), MaxLabels)
	}
	return nil
}

// Storable reports whether both stores can hold the text.
func Storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// holdsNUL reports whether some string in the document, or a name, has a NUL in it: `\u0000` may also be a backslash
// that is itself escaped.
func holdsNUL(doc json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(doc))
	for {
		t, err := d.Token()
		if err != nil {
			return false
		}
		if s, ok := t.(string); ok && strings.Contains(s, "\x00") {
			return true
		}
	}
}

// syntaxError says what is wrong with a document that is not JSON, and where.
func syntaxError(doc []byte) string {
	if len(bytes.TrimSpace(doc)) == 0 {
		return "it is empty"
	}
	var v any
	err := json.Unmarshal(doc, &v)
	if err == nil {
		return "malformed"
	}
	if syntax, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // Unmarshal does not wrap it
		return fmt.Sprintf("%v (byte %d)", err, syntax.Offset)
	}
	return err.Error()
}

// EnqueueRequest is a task to enqueue. Zero values are the defaults of the table.
type EnqueueRequest struct {
	Type        string
	Payload     json.RawMessage // nil: {}
	RunAt       time.Time       // zero: now, by the store's clock, plus In
	In          time.Duration
	Priority    int
	Key         string
	Region      string
	MaxAttempts int
	Labels      map[string]string
	Traceparent string
	CreatedBy   string
	Batch       task.BatchID // 0: none
	// RollbackPayload is what a rollback is given instead of the payload, as the state before the change; nil: none.
	RollbackPayload json.RawMessage
	// OnLive is what becomes of the live task with the same type and key; "": OnLiveKeep, or OnLiveReplace with Debounce.
	OnLive OnLive
	// Debounce has the task due so long from now, also where it replaces the values of one that waits: at most DebounceMax after that
	// one was first inserted, where that is not 0. 0: RunAt or In say when it is due.
	Debounce, DebounceMax time.Duration
	Lock                  string // rows with the same one never run at once; "": none
	Sequence              string // rows of the type with the same one run one after another; "": none
	// After are tasks that have to end before it starts, MaxAfter at most: with AfterIf AfterIfAny whichever way, else it is cancelled
	// where one does not succeed.
	After   []task.ID
	AfterIf string
	Tenant  string // rows of a type take turns by it; "": none
	// Within one CreateBatch, rows can wait for rows before them. Ref: a later one may name it. AfterRefs are such rows, numbered from 0
	// among those with Ref; they count as ids of After.
	Ref       bool
	AfterRefs []int64
}
