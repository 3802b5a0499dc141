package sqlite

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// spoolMemory is how many bytes of rows a spool keeps in memory; what is more goes to a temporary file.
const spoolMemory = 32 << 20

// spool keeps the rows of a batch until all of them are there, so that a slow producer keeps no other call waiting for the lock.
// The zero value is empty.
type spool struct {
	n      int64
	memory bytes.Buffer
	file   *os.File // nil: all of it is in memory
	w      *bufio.Writer
	row    []byte
}

// add takes in a row.
func (s *spool) add(r *store.EnqueueRequest) error {
	labels, err := labelText(r.Labels)
	if err != nil {
		return err
	}
	after := ""
	if len(r.After) > 0 {
		after = jsonList(r.After)
	}
	b := s.row[:0]
	for _, text := range []string{
		r.Type, string(r.Payload), string(r.RollbackPayload), r.Key, r.Region, labels, r.Traceparent, r.CreatedBy, r.Lock, r.Sequence,
		after, r.AfterIf, r.Tenant,
	} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	at := ""
	if !r.RunAt.IsZero() {
		at = stamp(r.RunAt)
	}
	b = append(binary.AppendUvarint(b, uint64(len(at))), at...)
	ref := int64(0)
	if r.Ref {
		ref = 1
	}
	for _, number := range append([]int64{int64(r.In), int64(r.Priority), int64(r.MaxAttempts), ref, int64(len(r.AfterRefs))}, r.AfterRefs...) {
		b = binary.AppendVarint(b, number)
	}
	s.row = b
	s.n++
	if s.file == nil && s.memory.Len()+len(b) <= spoolMemory {
		_, err = s.memory.Write(b)
		return err
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	_, err = s.w.Write(b)
	return err
}

// open begins the file, which has no name: it goes with the process.
func (s *spool) open() (err error) {
	s.file, err = os.CreateTemp("", "leasehold-batch-")
	if err != nil {
		return fmt.Errorf("keep the rows until all of them are there: %w", err)
	}
	s.w = bufio.NewWriterSize(s.file, 1<<20)
	return os.Remove(s.file.Name())
}

// close gives the file up.
func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// read gives what was added from the start.
func (s *spool) read() (*spoolReader, error) {
	r := io.Reader(bytes.NewReader(s.memory.Bytes()))
	if s.file != nil {
		if err := s.w.Flush(); err != nil {
			return nil, fmt.Errorf("keep the rows until all of them are there: %w", err)
		}
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		r = io.MultiReader(r, s.file)
	}
	return &spoolReader{r: bufio.NewReaderSize(r, 1<<20), left: s.n}, nil
}

// spoolReader reads a spool.
type spoolReader struct {
	r    *bufio.Reader
	left int64 // rows
	err  error
	id   task.ID   // that the next row gets
	ids  []task.ID // of rows with a ref
}

// text reads a text; NULL where it is empty.
func (s *spoolReader) text() any {
	n, err := binary.ReadUvarint(s.r)
	if err != nil {
		s.err = errors.Join(s.err, err)
	}
	if s.err != nil || n == 0 {
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(s.r, b); err != nil {
		s.err = err
	}
	return string(b)
}

func (s *spoolReader) number() int64 {
	n, err := binary.ReadVarint(s.r)
	if err != nil {
		s.err = errors.Join(s.err, err)
	}
	return n
}

// names adds the ids of so many rows with a ref to a list of ids, which may be NULL.
func (s *spoolReader) names(after any, n int64) any {
	var ids []task.ID
	if list, ok := after.(string); ok {
		s.err = errors.Join(s.err, json.Unmarshal([]byte(list), &ids))
	}
	for range n {
		ref := s.number()
		switch {
		case s.err != nil:
			return nil
		case ref < 0 || ref >= int64(len(s.ids)):
			s.err = fmt.Errorf("a row names row %d of those with a ref, and there are %d", ref, len(s.ids))
		default:
			ids = append(ids, s.ids[ref])
		}
	}
	return jsonList(ids)
}

// next appends the values of the next row, in the order of insert_row.
func (s *spoolReader) next(values []any, now time.Time) ([]any, error) {
	s.left--
	kind, payload, rollback, key, region := s.text(), s.text(), s.text(), s.text(), s.text()
	labels, traceparent, by, lock, sequence := s.text(), s.text(), s.text(), s.text(), s.text()
	after, afterIf, tenant, at := s.text(), s.text(), s.text(), s.text()
	in, priority, attempts, ref := s.number(), s.number(), s.number(), s.number()
	if names := s.number(); names > 0 {
		after = s.names(after, names)
	}
	if ref > 0 {
		s.ids = append(s.ids, s.id)
	}
	s.id++
	if s.err != nil {
		return nil, fmt.Errorf("read the rows again: %w", s.err)
	}
	if kind == nil {
		kind = "" // which the table refuses, with the right words
	}
	if payload == nil {
		payload = "{}"
	}
	if at == nil {
		at = stamp(now.Add(time.Duration(in)))
	}
	return append(values, kind, payload, at, priority, key, region, null(attempts), labels, traceparent, by, rollback, lock, sequence,
		after, afterIf, tenant), nil
}
