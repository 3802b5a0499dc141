package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// journal logs to memory.
func journal(level slog.Level) (*slog.Logger, func() []string) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level}))
	return log, func() []string {
		text := strings.TrimSpace(b.String())
		if text == "" {
			return nil
		}
		return strings.Split(text, "\n")
	}
}

func TestOutage(t *testing.T) {
	away := errors.New("connection refused")
	t.Run("one line, summaries, and one line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, lines := journal(slog.LevelInfo)
			var o Outage
			o.Worked(log, "claim")
			require.Empty(t, lines())
			for range 65 { // 65 s
				o.Failed(log, "claim", away)
				o.Failed(log, "present", away)
				<-time.After(time.Second)
			}
			o.Worked(log, "claim")
			require.Len(t, lines(), 4, "present has not succeeded")
			<-time.After(time.Second)
			o.Worked(log, "present")
			o.Worked(log, "present")
			require.Len(t, lines(), 5)
			require.Contains(t, lines()[0], `msg="store calls fail; the agent keeps trying" op=claim err="connection refused"`)
			require.Contains(t, lines()[1], `msg="store calls still fail; the agent keeps trying" for=10s failed=21 ops="claim 11, present 10"`)
			require.Contains(t, lines()[2], "for=30s")
			require.Contains(t, lines()[3], "for=1m0s")
			require.Contains(t, lines()[4], `msg="store calls succeed again" after=1m5s failed=130`)
		})
	})
	t.Run("a call that is not made again does not keep it going", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, lines := journal(slog.LevelInfo)
			var o Outage
			o.Failed(log, "maintain", away)
			for range 20 {
				<-time.After(time.Second)
				o.Worked(log, "present")
			}
			require.Len(t, lines(), 2)
			require.Contains(t, lines()[1], "after=1s", "it was over with the first success")
		})
	})
	t.Run("calls of one kind that go on failing are one outage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, lines := journal(slog.LevelInfo)
			var o Outage
			for range 100 {
				o.Failed(log, "fold", away)
				<-time.After(6 * time.Second)
				o.Worked(log, "present")
			}
			require.Len(t, lines(), 21, "at the start, after 12 s and 36 s, and then each 30 s")
		})
	})
	t.Run("each failure at debug level", func(t *testing.T) {
		log, lines := journal(slog.LevelDebug)
		var o Outage
		for range 3 {
			o.Failed(log, "renew", away, "leases", 7)
		}
		require.Len(t, lines(), 4)
		require.Contains(t, lines()[3], "leases=7")
	})
}
