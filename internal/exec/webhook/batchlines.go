package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/task"
)

// batchPiece is how many bytes of a response to a batch are read at once.
const batchPiece = 16 << 10

// reading is the reading of one response to a batch, line by line.
type reading struct {
	*batch
	junk    int64  // bytes that were of no use
	dropped int    // lines that were
	first   string // what was wrong with the first of these
	idle    bool   // the present piece has lines that ended nothing
}

// read reads until all attempts have ended, the array is closed (nil), or the body ends (io.EOF) or breaks off. The lines that end
// attempts are bounded by these; a target that sends others without a pause is slowed down, and one that sends too much of no use is
// cut off.
func (r *reading) read(body io.Reader, split splitter) error {
	for piece := make([]byte, batchPiece); ; {
		n, err := body.Read(piece)
		began := time.Now()
		r.idle = false
		split.Add(piece[:n], r.line)
		if err != nil {
			split.End(r.line)
		}
		switch {
		case r.isOver() || split.Ended(false):
			return nil
		case err != nil:
			return err
		case r.junk > maxAnswer:
			return errJunk
		}
		if r.idle {
			r.pause(ping.Pause(time.Since(began)))
		}
	}
}

func (r *reading) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done(): // the next read returns it
	}
}

// line takes one line or element in; nil is one that is too long.
func (r *reading) line(line []byte) {
	if line == nil {
		r.drop(maxLine, "a line is too long")
		return
	}
	if blank(line) {
		r.idle, r.junk = true, r.junk+int64(len(line))+1
		return
	}
	members, err := ping.Object("the line", line)
	if err != nil {
		r.drop(len(line), err.Error())
		return
	}
	x, err := r.find(members)
	if err != nil {
		r.drop(len(line), err.Error())
		return
	}
	if !ping.Ends(members) {
		r.ping(x, members, len(line))
		return
	}
	o, err := ping.Ending(members, "the endpoint")
	if err != nil {
		r.refuse(x, err)
		r.drop(len(line), fmt.Sprintf("task %d: %s", x.lease.Task().ID, err))
		return
	}
	if !r.end(x, o) {
		r.drop(len(line), fmt.Sprintf("task %d had ended before its line came", x.lease.Task().ID))
	}
	fault.Point("after a line")
}

// find returns the attempt that a line is of. A line may repeat the fence; then it must be the attempt's.
func (r *reading) find(members map[string]json.RawMessage) (*entry, error) {
	raw, ok := members["id"]
	if !ok {
		return nil, errors.New("a line has no id")
	}
	id, err := strconv.ParseInt(string(raw), 10, 64)
	x := r.byID[task.ID(id)]
	if err != nil || x == nil || x.out {
		return nil, fmt.Errorf("%s is not the id of a task in the request", answer.Line(string(raw)))
	}
	if fence := members["fence"]; ping.Said(fence) && string(fence) != strconv.FormatInt(int64(x.lease.Task().Fence), 10) {
		return nil, fmt.Errorf("task %d was sent with fence %d, not %s", id, x.lease.Task().Fence, answer.Line(string(fence)))
	}
	return x, nil
}

// ping takes a line that ends nothing.
func (r *reading) ping(x *entry, members map[string]json.RawMessage, size int) {
	r.idle = true
	p, err := ping.FromMembers(members)
	if err != nil {
		r.refuse(x, err)
		r.drop(size, fmt.Sprintf("task %d: %s", x.lease.Task().ID, err))
		return
	}
	x.lease.Ping(p)
}

// refuse notes what was wrong with a line of an attempt, for its end.
func (r *reading) refuse(x *entry, err error) {
	x.refused = " (one of its lines was malformed: " + answer.Line(err.Error()) + ")"
}

// drop counts a line that was of no use.
func (r *reading) drop(size int, reason string) {
	r.idle, r.junk = true, r.junk+int64(size)
	r.dropped++
	if r.dropped == 1 {
		r.first = reason
	}
}

// report logs, once for each response, that lines were dropped.
func (r *reading) report() {
	if r.dropped > 0 {
		r.log.Warn("lines of a response were dropped", "type", r.typ.Name, "phase", r.rows[0].lease.Phase(), "tasks", len(r.rows),
			"lines", r.dropped, "first", answer.Line(r.first))
	}
}
