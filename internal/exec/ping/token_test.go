package ping

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func signer(t testing.TB, secret string) *Signer {
	t.Helper()
	s, err := NewSigner([]byte(strings.Repeat(secret, 32)))
	require.NoError(t, err)
	return s
}

func TestURL(t *testing.T) {
	s := signer(t, "s")
	url := s.URL("http://127.0.0.1:7070/", 4211, 9)
	require.Regexp(t, `^http://127\.0\.0\.1:7070/ping/4211\.9\.[A-Za-z0-9_-]{24}$`, url)
	require.Equal(t, "http://127.0.0.1:7070/ping/4211.9.Wzzt0vkhY-T322AAr5ra5pWu", url,
		"agents of several versions share a store: a token is the same for all of them")
	for _, c := range []struct {
		id task.ID
		f  task.Fence
	}{{1, 1}, {4211, 9}, {math.MaxInt64, math.MaxInt64}} {
		id, f, ok := s.Parse(strings.TrimPrefix(s.URL("", c.id, c.f), Path))
		require.True(t, ok)
		require.Equal(t, c.id, id)
		require.Equal(t, c.f, f)
	}
}

func TestTrace(t *testing.T) {
	s := signer(t, "s")
	trace := s.Trace(4211)
	require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", trace)
	require.Equal(t, trace, signer(t, "s").Trace(4211), "all agents of a store agree")
	require.NotEqual(t, trace, s.Trace(4212))
	require.NotEqual(t, trace, signer(t, "o").Trace(4211), "no two stores do")
	all := map[string]bool{
		trace: true, s.BatchTrace(4211): true, s.SlotTrace("4211", ""): true, s.SlotTrace("421", "1"): true, s.SlotTrace("", "4211"): true,
		s.SlotTrace("1", "1 x"): true, s.SlotTrace("1 1", " x"): true,
	}
	require.Len(t, all, 7, "each is a trace of its own")
	for one := range all {
		require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", one)
	}
}

func TestForgedTokens(t *testing.T) {
	s, other := signer(t, "s"), signer(t, "o")
	good := strings.TrimPrefix(s.URL("", 4211, 9), Path)
	mac := good[strings.LastIndexByte(good, '.')+1:]
	forged := []string{
		"", ".", "..", "4211.9", "4211.9.", "4211.9." + strings.Repeat("A", macDigits), "4211." + mac, mac, "." + good, good + ".",
		strings.TrimPrefix(other.URL("", 4211, 9), Path),
		"4211.10." + mac, "4212.9." + mac, "42.119." + mac, "04211.9." + mac, "4211.09." + mac, "+4211.9." + mac, "4211.+9." + mac,
		"-4211.9." + mac, " 4211.9." + mac, "4211.9 ." + mac, "4211.9.x." + mac, "4_211.9." + mac, "0.9." + mac, "4211.0." + mac,
		"99999999999999999999.9." + mac, "４211.9." + mac,
		"4211.9." + mac + "=", "4211.9." + mac + "A", "4211.9." + mac[1:], "4211.9." + strings.ToLower(mac), "4211.9." + mac + "\n",
	}
	for i := range len(good) {
		changed := []byte(good)
		if changed[i]++; changed[i] == '.' {
			changed[i] = 'x'
		}
		forged = append(forged, string(changed))
	}
	for _, token := range forged {
		_, _, ok := s.Parse(token)
		require.False(t, ok, "%q", token)
	}
	_, _, ok := s.Parse(good)
	require.True(t, ok)
	_, err := NewSigner(make([]byte, 31))
	require.ErrorContains(t, err, "31 bytes")
}

func BenchmarkURL(b *testing.B) {
	s := signer(b, "s")
	b.ReportAllocs()
	for b.Loop() {
		_ = s.URL("http://127.0.0.1:7070", 4211, 9)
	}
}

func BenchmarkParse(b *testing.B) {
	s := signer(b, "s")
	token := strings.TrimPrefix(s.URL("", 4211, 9), Path)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := s.Parse(token); !ok {
			b.Fatal(token)
		}
	}
}
