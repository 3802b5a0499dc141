package ops

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/leasehold/leasehold/internal/store"
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
			l := place{name, number}
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

// place is a line of a file.
type place struct {
	name string
	line int
}

// wrong is a mistake at a byte of the line, from 0.
func (p place) wrong(at int, format string, args ...any) error {
	return &store.InputError{Text: fmt.Sprintf("%s:%d:%d: %s", p.name, p.line, at+1, fmt.Sprintf(format, args...))}
}

// read reads one line. The request keeps nothing of it.
func (p place) read(line []byte, r *store.EnqueueRequest, known *refs) error {
	switch {
	case !utf8.Valid(line):
		return p.wrong(0, "the line is not UTF-8")
	case !json.Valid(line):
		return p.syntax(line)
	}
	at := skipSpace(line, 0)
	if line[at] != '{' {
		return p.wrong(at, `a line must be an object such as {"payload": {"service": 7}}`)
	}
	var seen [len(columns)]bool
	var names lineRefs
	for at = skipSpace(line, at+1); line[at] != '}'; {
		end := skipValue(line, at)
		column, err := p.column(line, at, end)
		if err != nil {
			return err
		}
		if seen[column] {
			return p.wrong(at, "%q occurs twice", columns[column])
		}
		seen[column] = true
		from := skipSpace(line, skipSpace(line, end)+1) // the colon
		to := skipValue(line, from)
		if err := p.member(columns[column], line[from:to], from, r, &names); err != nil {
			return err
		}
		if at = skipSpace(line, to); line[at] == ',' {
			at = skipSpace(line, at+1)
		}
	}
	if r.Type == "" {
		return p.wrong(0, `the task has no type: add "type", or use --type`)
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
	for i, c := range columns {
		if string(quoted[1:len(quoted)-1]) == c {
			return i, nil
		}
	}
	return 0, p.wrong(from, "%s is not a column: use %s; put the task's own data into payload",
		OneLine(string(quoted), maxShown), strings.Join(columns[:], ", "))
}

// maxShown is how much of a text is shown in an error, in characters.
const maxShown = 60

// columns are the members that a line may have.
var columns = [...]string{ //nolint:gochecknoglobals // a constant table
	"type", "payload", "run_at", "priority", "key", "region", "labels", "rollback_payload", "max_attempts", "traceparent",
	"lock", "sequence", "after", "after_if", "tenant", "ref", "after_ref",
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
		return wants(&r.Type, text)
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
