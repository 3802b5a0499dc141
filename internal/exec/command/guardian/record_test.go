package guardian

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
)

func TestRecordsKeepWhatTheySay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := record{
			kind:   kind(rapid.Uint32Range(uint32(present), uint32(bye)).Draw(rt, "kind")),
			pgid:   rapid.IntRange(2, math.MaxInt32).Draw(rt, "pgid"),
			cgroup: rapid.IntRange(0, math.MaxInt32).Draw(rt, "cgroup"),
			number: rapid.Uint64().Draw(rt, "number"),
			end:    time.Duration(rapid.Int64().Draw(rt, "end")),
			from:   time.Duration(rapid.Int64().Draw(rt, "from")),
			to:     time.Duration(rapid.Int64().Draw(rt, "to")),
		}
		b := r.append(nil)
		if len(b) != recordSize {
			rt.Fatalf("%d bytes", len(b))
		}
		back, err := parse(b)
		if err != nil || back != r {
			rt.Fatalf("%+v became %+v, %v", r, back, err)
		}
	})
}

// A group of number 1 or 0 would be everything that there is.
func TestRecordsThatCannotBe(t *testing.T) {
	for name, r := range map[string]record{
		"no kind":      {},
		"unknown kind": {kind: bye + 1},
		"group 0":      {kind: start},
		"group 1":      {kind: start, pgid: 1},
		"group -1":     {kind: start, pgid: -1},
	} {
		_, err := parse(r.append(nil))
		require.Error(t, err, name)
	}
}

func TestHello(t *testing.T) {
	h := hello{Run: processes.NewRun(), Dirs: []string{"/tmp/leasehold-x", "/dev/shm/leasehold-y"}, Cgroup: "/sys/fs/cgroup/a b"}
	b, err := h.pack()
	require.NoError(t, err)
	back, err := readHello(bytes.NewReader(b))
	require.NoError(t, err)
	require.Equal(t, h, back)
	for name, text := range map[string]string{
		"nothing": "", "no length": "abc", "cut off": string(b[:len(b)-1]), "no JSON": "\x03\x00\x00\x00abc",
		"endless": string(binary.LittleEndian.AppendUint32(nil, math.MaxUint32)) + "{}",
	} {
		_, err := readHello(strings.NewReader(text))
		require.Error(t, err, name)
	}
}
