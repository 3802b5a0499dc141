package ops

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// maxLine bounds one line of NDJSON, in bytes, its end not counted: a payload and a rollback payload as large as a store can
// be set to take, and what else there is. The store's own bound is mostly less, and says so. Memory grows with the longest
// line that there is.
const maxLine = 2*store.MaxMaxPayload + 1<<20

// firstBuffer is enough for most lines.
const firstBuffer = 64 << 10

// ReadRequests reads tasks from NDJSON: a task a line, an object with the columns that an application may set, as
//
//	{"payload": {"service": 7}, "rollback_payload": {"zone": "a"}, "key": "service-7"}
//
// Every member may be missing; what is missing, or null, is as in base. Lines without anything but spaces are passed
// over. A line with a ref can be named by lines after it, in after_ref. The first mistake ends it: as *InputError, with name, line
// and column. Only a line at a time is held in memory, and a digest of each ref.
func ReadRequests(from io.Reader, name string, base store.EnqueueRequest) iter.Seq2[store.EnqueueRequest, error] {
	return readRequests(from, name, base, maxLine)
}

// readRequests is ReadRequests for lines of at most so many bytes.
func readRequests(from io.Reader, name string, base store.EnqueueRequest, most int) iter.Seq2[store.EnqueueRequest, error] {
	return func(yield func(store.EnqueueRequest, error) bool) {
		in := bufio.NewReaderSize(from, firstBuffer)
		var long []byte
		known := refs{most: maxRefs}
		for number := 1; ; number++ {
			line, err := readLine(in, &long, most+2) // its end may be two bytes
			if errors.Is(err, io.EOF) && len(line) == 0 {
				return
			}
			r := base
			l := place{name: name, line: number, columns: columns[:]}
			end := bytes.TrimRight(line, "\r\n")
			switch {
			case errors.Is(err, bufio.ErrBufferFull) || len(end) > most:
				err = l.wrong(0, "the line is longer than %d MiB: put what is large somewhere and say where it is", most>>20)
			case err != nil && !errors.Is(err, io.EOF):
				err = fmt.Errorf("read %s: %w", name, err)
			default:
				if number == 1 {
					end = bytes.TrimPrefix(end, []byte("\ufeff"))
				}
				if len(bytes.TrimSpace(end)) == 0 {
					continue
				}
				err = l.read(end, &r, &known)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// readLine reads a line with its end; bufio.ErrBufferFull where it is longer than most. What it gives is valid until the
// next one; long keeps what does not fit into the reader.
func readLine(in *bufio.Reader, long *[]byte, most int) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	*long = (*long)[:0]
	for errors.Is(err, bufio.ErrBufferFull) && len(*long) <= most {
		*long = append(*long, line...)
		line, err = in.ReadSlice('\n')
	}
	*long = append(*long, line...)
	return *long, err
}

// place is a line of a file, or a document of its own.
type place struct {
	name    string
	line    int
	doc     []byte   // of several lines; nil: it is one
	columns []string // the members that it may have
}

// wrong is a mistake at a byte of the line or document, from 0.
func (p place) wrong(at int, format string, args ...any) error {
	line, column := p.line, at
	if before := p.doc[:min(at, len(p.doc))]; len(before) > 0 {
		line += bytes.Count(before, []byte("\n"))
		column = at - bytes.LastIndexByte(before, '\n') - 1
	}
	return &store.InputError{Text: fmt.Sprintf("%s:%d:%d: %s", p.name, line, column+1, fmt.Sprintf(format, args...))}
}

// ReadRequest reads one task from JSON: an object as a line of NDJSON has it, without ref and after_ref, and with batch, created_by,
// in, on_live, debounce and debounce_max, as enqueue has them. What is missing, or null, is as in base. The first mistake comes
// back as *InputError, with name, line and column.
func ReadRequest(doc []byte, name string, base store.EnqueueRequest) (store.EnqueueRequest, error) {
	r := base
	p := place{name: name, line: 1, doc: doc, columns: requestColumns[:]}
	if len(bytes.TrimSpace(doc)) == 0 {
		return r, p.wrong(0, `a task is an object such as {"type": "invoice.send", "payload": {"invoice": 7}}`)
	}
	err := p.read(doc, &r, &refs{})
	return r, err
}

// read reads one line. The request keeps nothing of it.
func (p place) read(line []byte, r *store.EnqueueRequest, known *refs) error {
	switch {
	case !utf8.Valid(line):
		return p.wrong(0, "the %s is not UTF-8", p.unit())
	case !json.Valid(line):
		return p.syntax(line)
	}
	at := skipSpace(line, 0)
	if line[at] != '{' {
		return p.wrong(at, `a %s must be an object such as {"payload": {"service": 7}}`, p.unit())
	}
	seen := make([]bool, len(p.columns))
	var names lineRefs
	for at = skipSpace(line, at+1); line[at] != '}'; {
		end := skipValue(line, at)
		column, err := p.column(line, at, end)
		if err != nil {
			return err
		}
		if seen[column] {
			return p.wrong(at, "%q occurs twice", p.columns[column])
		}
		seen[column] = true
		from := skipSpace(line, skipSpace(line, end)+1) // the colon
		to := skipValue(line, from)
		if err := p.member(p.columns[column], line[from:to], from, r, &names); err != nil {
			return err
		}
		if at = skipSpace(line, to); line[at] == ',' {
			at = skipSpace(line, at+1)
		}
	}
	if r.Type == "" {
		return p.wrong(0, `the task has no type: add "type"%s`, p.orElse())
	}
	var err error
	if r.AfterRefs, err = known.resolve(p, &names); err != nil {
		return err
	}
	r.Ref = names.ref != ""
	if err := r.Check(); err != nil {
		return p.wrong(0, "%s", err)
	}
	return nil
}

// unit is what is read.
func (p place) unit() string {
	if p.doc != nil {
		return "task"
	}
	return "line"
}

// orElse is another way to give what each line lacks.
func (p place) orElse() string {
	if p.doc != nil {
		return ""
	}
	return ", or use --type"
}

// skipSpace is where the next byte stands that is no space, of a valid document.
func skipSpace(doc []byte, at int) int {
	for at < len(doc) && strings.IndexByte(" \t\r\n", doc[at]) >= 0 {
		at++
	}
	return at
}

// skipValue is where the value ends that begins there, in a valid document.
func skipValue(doc []byte, at int) int {
	for depth := 0; at < len(doc); at++ {
		switch doc[at] {
		case '"':
			for at++; doc[at] != '"'; at++ {
				if doc[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if at+1 < len(doc) && strings.IndexByte(" \t\r\n,:]}", doc[at+1]) < 0 {
				continue // within a number, or a word
			}
		}
		if depth <= 0 {
			return at + 1
		}
	}
	return at
}

// column is the column that a member's name, in its quotes, means.
func (p place) column(line []byte, from, to int) (int, error) {
	quoted := line[from:to]
	for i, c := range p.columns {
		if string(quoted[1:len(quoted)-1]) == c {
			return i, nil
		}
	}
	return 0, p.wrong(from, "%s is not a column: use %s; put the task's own data into payload",
		OneLine(string(quoted), maxShown), strings.Join(p.columns, ", "))
}

// maxShown is how much of a text is shown in an error, in characters.
const maxShown = 60

// columns are the members that a line may have.
var columns = [...]string{ //nolint:gochecknoglobals // a constant table
	"type", "payload", "run_at", "priority", "key", "region", "labels", "rollback_payload", "max_attempts", "traceparent",
	"lock", "sequence", "after", "after_if", "tenant", "ref", "after_ref",
}

// requestColumns are the members that a request of its own may have.
var requestColumns = [...]string{ //nolint:gochecknoglobals // a constant table
	"type", "payload", "run_at", "in", "priority", "key", "on_live", "debounce", "debounce_max", "region", "labels", "batch",
	"rollback_payload", "max_attempts", "traceparent", "lock", "sequence", "after", "after_if", "tenant", "created_by",
}

// member reads the value of one member.
func (p place) member(column string, value []byte, at int, r *store.EnqueueRequest, names *lineRefs) error {
	if string(value) == "null" {
		return nil
	}
	wants := func(into any, what string) error {
		if json.Unmarshal(value, into) != nil {
			return p.wrong(at, "%s must be %s, not %s", column, what, OneLine(string(value), maxShown))
		}
		return nil
	}
	const text = "a string"
	switch column {
	case "type":
		return cmp.Or(wants(&r.Type, text), p.declarable(at, r.Type))
	case "payload":
		r.Payload = bytes.Clone(value)
	case "rollback_payload":
		r.RollbackPayload = bytes.Clone(value)
	case "run_at":
		return wants(&r.RunAt, `a time such as "2026-11-20T08:00:00Z"`)
	case "priority":
		return wants(&r.Priority, "a whole number")
	case "key":
		return wants(&r.Key, text)
	case "region":
		return wants(&r.Region, text)
	case "labels":
		r.Labels = nil // not those of base
		return wants(&r.Labels, "an object of strings")
	case "max_attempts":
		return wants(&r.MaxAttempts, "a whole number")
	case "traceparent":
		return wants(&r.Traceparent, text)
	case "after":
		return wants(&r.After, "a list of ids")
	case "after_if":
		return wants(&r.AfterIf, text)
	case "lock":
		return wants(&r.Lock, text)
	case "sequence":
		return wants(&r.Sequence, text)
	case "tenant":
		return wants(&r.Tenant, text)
	case "ref":
		return names.readRef(p, value, at)
	case "after_ref":
		return names.readAfter(p, value, at)
	}
	return p.requestMember(column, value, at, r)
}

// declarable returns an error where no agent could ever declare a type of that name; "" is none.
func (p place) declarable(at int, name string) error {
	if err := task.CheckTypeName(name); name != "" && err != nil {
		return p.wrong(at, "%s", err)
	}
	return nil
}

// requestMember reads the value of one member that only a request of its own has.
func (p place) requestMember(column string, value []byte, at int, r *store.EnqueueRequest) error {
	spans := map[string]*time.Duration{"in": &r.In, "debounce": &r.Debounce, "debounce_max": &r.DebounceMax}
	texts := map[string]*string{"on_live": (*string)(&r.OnLive), "created_by": &r.CreatedBy}
	var given string
	var err error
	what := "a string"
	switch {
	case spans[column] != nil:
		what = `a duration such as "90s", "1h30m" or "7d"`
		if err = json.Unmarshal(value, &given); err == nil {
			*spans[column], err = ParseSpan(given)
		}
	case texts[column] != nil:
		err = json.Unmarshal(value, texts[column])
	case column == "batch":
		what = "the id of a batch"
		err = json.Unmarshal(value, &r.Batch)
	}
	if err != nil {
		return p.wrong(at, "%s must be %s, not %s", column, what, OneLine(string(value), maxShown))
	}
	return nil
}

// syntax says what keeps a line from being JSON, and where.
func (p place) syntax(line []byte) error {
	var ignored json.RawMessage
	err := json.Unmarshal(line, &ignored)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset < int64(len(line)) {
		return p.wrong(max(int(syntax.Offset)-1, 0), "this is not JSON: %v", err)
	}
	return p.wrong(len(line), "this is not JSON: %v", err)
}
