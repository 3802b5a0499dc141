package guardian

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
)

// The pipe from the agent carries one hello and then records, all of the same size, so that each is written whole or not
// at all (pipe(7): writes of at most PIPE_BUF bytes are).

// hello is what the guardian has to know from the start.
type hello struct {
	Run    processes.Run `json:"run"`
	Dirs   []string      `json:"dirs"`   // of the agent's private files, to be removed
	Cgroup string        `json:"cgroup"` // of the agent's tree; "": none
}

const maxHello = 64 << 10 // bytes

// pack writes a hello: its length, and JSON.
func (h hello) pack() ([]byte, error) {
	doc, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(doc))), doc...), nil
}

func readHello(r io.Reader) (h hello, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return h, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxHello {
		return h, errors.New("not a hello")
	}
	doc := make([]byte, n)
	if _, err := io.ReadFull(r, doc); err != nil {
		return h, err
	}
	err = json.Unmarshal(doc, &h)
	return h, err
}

// kind is what a record says.
type kind uint32

const (
	present kind = iota + 1 // presence runs out at end
	start                   // the group runs, and its window ends at end
	move                    // its window ends at end now
	over                    // nothing is left of the group, or it never started
	base                    // attempts with numbers up to this one are over, but for those that the next records name
	pending                 // this one is about to start, its group is not known yet, and its window ends at end
	bye                     // the agent ends, and starts nothing more
)

// record is one thing that the agent says. Times are those of lease.BootClock.
type record struct {
	kind   kind
	pgid   int           // of start
	cgroup int           // of start and pending: number in the tree; 0: none
	number uint64        // of the attempt
	end    time.Duration // of present, pending, start and move
	from   time.Duration // of start: the leader was started after this,
	to     time.Duration // and before this
}

const recordSize = 48 // bytes

// append appends the record to b.
func (r record) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(r.kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.pgid))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.cgroup))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, r.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.end))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.from))
	return binary.LittleEndian.AppendUint64(b, uint64(r.to))
}

// parse reads a record, recordSize long.
func parse(b []byte) (record, error) {
	r := record{
		kind:   kind(binary.LittleEndian.Uint32(b)),
		pgid:   int(int32(binary.LittleEndian.Uint32(b[4:]))),
		cgroup: int(int32(binary.LittleEndian.Uint32(b[8:]))),
		number: binary.LittleEndian.Uint64(b[16:]),
		end:    time.Duration(binary.LittleEndian.Uint64(b[24:])),
		from:   time.Duration(binary.LittleEndian.Uint64(b[32:])),
		to:     time.Duration(binary.LittleEndian.Uint64(b[40:])),
	}
	if r.kind < present || r.kind > bye || r.kind == start && r.pgid < 2 {
		return r, fmt.Errorf("a record of kind %d about group %d", r.kind, r.pgid)
	}
	return r, nil
}
