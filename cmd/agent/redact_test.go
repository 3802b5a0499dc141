package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/config"
)

// TestTerminalJSON shows that nothing a terminal obeys comes through, and that the JSON means the same.
func TestTerminalJSON(t *testing.T) {
	odd := "a\u0085b\u009b31mc\u007fd\u202ee\u2066f\u061cg\u200bh\U000e0041i\ufeffj é 世 \\ \" <&>"
	doc, err := json.Marshal(map[string]string{odd: odd})
	require.NoError(t, err)
	shown := terminalJSON(doc)
	require.NotRegexp(t, "[\u007f-\u009f\u200b\u202e\u2066\u061c\ufeff\U000e0041]", string(shown))
	require.Contains(t, string(shown), `\u009b`)
	require.Contains(t, string(shown), "é 世")
	var again map[string]string
	require.NoError(t, json.Unmarshal(shown, &again))
	require.Equal(t, map[string]string{odd: odd}, again)
	require.Equal(t, `"\ufffd"`, string(terminalJSON([]byte("\"\x9b\""))), "what is no UTF-8")
}

// TestPlacesShowNoPassword has passwords that should have been escaped, and were not.
func TestPlacesShowNoPassword(t *testing.T) {
	for _, url := range []string{
		"postgres://app:geheim@127.0.0.1/db", "postgres://app:geh@eim@127.0.0.1/db", "postgres://app:geh@eim/heim@127.0.0.1/db",
		"postgres://app@127.0.0.1/db?password=geheim", "postgres://app:geh@eim:x@127.0.0.1:port/db", "postgres://app:geh/eim@127.0.0.1/db",
		"sqlite://app:geh@eim@127.0.0.1/db", "postgres://app:geh%@eim@127.0.0.1/db?sslmode=odd",
	} {
		p, err := placeOf(config.Store{URL: url})
		if err == nil {
			require.NotRegexp(t, "geh|eim", p.String())
			var s dataStore
			if s, err = p.open(t.Context(), false, nil); err == nil {
				require.NoError(t, s.Close())
			}
		}
		if err != nil {
			require.NotRegexp(t, "geh|eim", err.Error())
		}
	}
}
