package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
)

// TestLiveNeverWraps counts columns, of which some characters take two: a line that wraps would stay on the screen.
func TestLiveNeverWraps(t *testing.T) {
	for _, line := range []string{strings.Repeat("a", 100), strings.Repeat("東京", 50), "é" + strings.Repeat("🙂", 100)} {
		var out bytes.Buffer
		l := &live{out: &out, width: 40}
		require.NoError(t, l.show(line))
		drawn := strings.TrimPrefix(out.String(), "\r\x1b[K")
		require.Less(t, text.StringWidth(drawn), 40)
		require.True(t, strings.HasSuffix(drawn, "…"))
		require.NoError(t, l.show(line))
		require.Equal(t, "\r\x1b[K"+drawn, out.String(), "what stands there already is not drawn again")
		require.NoError(t, l.end())
		require.True(t, strings.HasSuffix(out.String(), line+"\n"), "in the end all of it stands there")
	}
}
