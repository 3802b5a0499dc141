package guardian

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
)

// FuzzRecord reads any bytes as a record: what is taken for one says the same when it is written again, and none ever
// names a group that is everything that there is.
func FuzzRecord(f *testing.F) {
	for k := range bye + 2 {
		for _, pgid := range []int{-1, 0, 1, 2, 4711} {
			f.Add(record{kind: k, pgid: pgid, cgroup: 3, number: 7, end: 1, from: -1, to: never}.append(nil))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < recordSize {
			return
		}
		text = text[:recordSize]
		r, err := parse(text)
		known := present <= r.kind && r.kind <= bye
		require.Equal(t, known && (r.kind != start || r.pgid >= 2), err == nil)
		if err != nil {
			return
		}
		same := bytes.Clone(text)
		binary.LittleEndian.PutUint32(same[12:], 0) // unused bytes
		require.Equal(t, same, r.append(nil))
	})
}

// FuzzHello reads anything as a hello: it takes no more memory than a hello has, and what is one stays the same.
func FuzzHello(f *testing.F) {
	b, err := hello{Run: processes.NewRun(), Dirs: []string{"/tmp/leasehold-x", "é"}, Cgroup: "/sys/fs/cgroup/a b"}.pack()
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte("\x02\x00\x00\x00{}"))
	f.Add([]byte("\x04\x00\x00\x00null"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x01\x00\x01\x00{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bytes.NewReader(text)
		h, err := readHello(r)
		if err != nil {
			return
		}
		size := binary.LittleEndian.Uint32(text)
		require.LessOrEqual(t, size, uint32(maxHello))
		require.Equal(t, len(text)-4-int(size), r.Len(), "what follows is left for the records")
		b, err := h.pack()
		require.NoError(t, err)
		if len(b) > 4+maxHello { // some characters are escaped that need not be
			return
		}
		again, err := readHello(io.MultiReader(bytes.NewReader(b[:1]), bytes.NewReader(b[1:])))
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}
