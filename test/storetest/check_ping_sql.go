package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func pingBySQL(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(moving())
	r.Advance(t, 10*time.Minute)
	sql := func(p store.Ping, counted bool, window time.Duration) {
		t.Helper()
		end := r.leaseEnd(row.ID)
		reply, err := r.pingSQL(row.ID, row.Fence, p)
		require.NoError(t, err)
		if reply != nil {
			require.Equal(t, counted, reply.Counted)
			require.False(t, reply.Cancel)
			require.InDelta(t, r.attemptLeft(moving(), row.ID), reply.Remaining, float64(slack))
		}
		if !counted {
			require.WithinDuration(t, end, r.leaseEnd(row.ID), time.Millisecond)
			return
		}
		near(t, r.now().Add(window+2*time.Minute), r.leaseEnd(row.ID))
		require.InDelta(t, window, r.held0().PingDue, float64(slack))
	}
	sql(store.Ping{}, false, 0)
	sql(store.Ping{Progress: raw(`0.4`), Message: "page 40", Checkpoint: raw(`{"page":40}`)}, true, 10*time.Minute)
	r.reports(row.ID, `0.4`, "page 40", `{"page":40}`)
	sql(store.Ping{Progress: raw(`0.4`)}, false, 0)
	require.False(t, r.ping(row, store.Ping{Progress: raw(`0.4`)}).Counted, "the two ways have one memory")
	sql(store.Ping{Progress: raw(`0.5`), NextWithin: 20 * time.Minute}, true, 20*time.Minute)
	sql(store.Ping{Progress: raw(`0.6`), NextWithin: 20 * time.Hour}, true, 30*time.Minute)
	r.reports(row.ID, `0.6`, "page 40", `{"page":40}`)
	r.settled(finish(row))
	r.reports(row.ID, `0.6`, "page 40", `{"page":40}`)
}

func pingForms(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(quiet())
	for _, progress := range []string{
		`0`, `1`, `0.25`, `{"done":40,"total":100}`, `"page 40 of 100"`, `"2.5"`, `"-1"`, `"[1]"`, `"null"`, `""`, `"{\"page\":1}"`,
	} {
		_, err := r.pingSQL(row.ID, row.Fence, store.Ping{Progress: raw(progress)})
		require.NoError(t, err, progress)
		var text string
		if json.Unmarshal(raw(progress), &text) == nil && text == "" {
			continue // nothing was said
		}
		r.reports(row.ID, progress, "", "")
	}
}

func pingBounds(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.unchanged(row.ID, func() {
		for name, p := range map[string]store.Ping{
			"progress must be 1 KiB at most":    {Progress: raw(`"` + strings.Repeat("x", store.MaxProgress) + `"`)},
			"checkpoint must be 64 KiB at most": {Checkpoint: raw(`"` + strings.Repeat("x", store.MaxCheckpoint) + `"`)},
			"next_within_s must be positive":    {NextWithin: -time.Second},
		} {
			_, err := r.pingSQL(row.ID, row.Fence, p)
			require.ErrorContains(t, err, name)
		}
	})
	_, err := r.pingSQL(row.ID, row.Fence, store.Ping{Message: strings.Repeat("x", store.MaxMessage)})
	require.NoError(t, err)
	require.Len(t, r.get(row.ID).Message, store.MaxMessage)
}
