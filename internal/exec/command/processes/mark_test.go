package processes

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarks(t *testing.T) {
	r := Run("0123456789abcdef0123456789abcdef")
	require.Equal(t, "LEASEHOLD_RUN=0123456789abcdef0123456789abcdef.7", r.Mark(7))
	require.Len(t, NewRun(), 32)
	first, second := NewRun(), NewRun()
	require.NotEqual(t, first, second)
	mark, highest := r.Mark(7), r.Mark(1<<64-1)
	for name, c := range map[string]struct {
		environ string
		number  uint64
		ok      bool
	}{
		"alone":                 {mark + "\x00", 7, true},
		"first":                 {mark + "\x00A=1\x00", 7, true},
		"last":                  {"A=1\x00" + mark + "\x00", 7, true},
		"the highest":           {highest + "\x00", 1<<64 - 1, true},
		"nothing":               {"", 0, false},
		"of others":             {"PATH=/bin\x00HOME=/\x00", 0, false},
		"another run's":         {Run("fedcba9876543210fedcba9876543210").Mark(7) + "\x00", 0, false},
		"another's, and ours":   {NewRun().Mark(3) + "\x00" + mark + "\x00", 7, true},
		"in another's value":    {"A=" + mark + "\x00", 0, false},
		"there, and in its own": {"A=" + mark + "\x00" + r.Mark(8) + "\x00", 8, true},
		"with more behind it":   {mark + "x\x00", 0, false},
		"cut off":               {mark, 0, false},
		"without a number":      {"LEASEHOLD_RUN=" + string(r) + ".\x00", 0, false},
		"with a number too big": {highest + "0\x00", 0, false},
		"a name that ends so":   {"X_" + mark + "\x00", 0, false},
	} {
		n, ok := r.find([]byte(c.environ))
		require.Equal(t, c.ok, ok, name)
		require.Equal(t, c.number, n, name)
	}
}

func FuzzMarks(f *testing.F) {
	r := NewRun()
	f.Add([]byte(r.Mark(7)))
	f.Fuzz(func(t *testing.T, environ []byte) {
		r.find(environ) // must not panic
		marked := append(slices.Clip(environ), 0)
		if _, ok := r.find(append(marked, r.Mark(9)+"\x00"...)); !ok {
			t.Fatal("not found")
		}
	})
}
