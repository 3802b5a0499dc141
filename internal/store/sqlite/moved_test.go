package sqlite

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// TestFileIsMoved: a store whose file was deleted, moved or replaced says so at the next heartbeat or ping, and does nothing more until the file
// is back.
func TestFileIsMoved(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"deleted or moved": false, "another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			var logs bytes.Buffer
			s, err := Open(t.Context(), Options{Path: path, Log: slog.New(slog.NewTextHandler(&logs, nil))})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			a := store.Agent{Name: "a", Presence: time.Hour}
			session, err := s.Join(t.Context(), a)
			require.NoError(t, err)
			heartbeat := func() error {
				_, err := s.Present(t.Context(), store.Heartbeat{Session: session, Agent: a})
				return err
			}
			require.NoError(t, heartbeat())
			require.NoError(t, s.Ping(t.Context()))

			require.NoError(t, os.Rename(path, path+".away"))
			want := "the file was deleted or moved away"
			if other {
				require.NoError(t, os.WriteFile(path, nil, 0o600))
				want = "another file has taken its place"
			}
			require.ErrorContains(t, heartbeat(), want)
			require.ErrorContains(t, s.Ping(t.Context()), "store "+path+": "+want)
			_, err = s.Claim(t.Context(), store.Claim{Session: session, Number: 1, Wants: []store.Want{{Type: "a", Phase: "run", N: 1, Window: time.Hour}}})
			require.ErrorContains(t, err, want, "it does not work on what others do not see")
			_, err = s.List(t.Context(), store.TaskFilter{Limit: 1})
			require.ErrorContains(t, err, want)
			require.Equal(t, 1, bytes.Count(logs.Bytes(), []byte("level=ERROR msg=\"the store is not usable")), "once: %s", &logs)

			require.NoError(t, os.Rename(path+".away", path))
			require.NoError(t, s.Ping(t.Context()))
			require.NoError(t, heartbeat())
			_, err = s.List(t.Context(), store.TaskFilter{Limit: 1})
			require.NoError(t, err)
			require.Contains(t, logs.String(), "the store is usable again")
		})
	}
}
