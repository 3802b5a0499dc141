package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// TestFlowOfLimits shows limits, rates, tenants and locks, with names as text whatever they are.
func TestFlowOfLimits(t *testing.T) {
	const evil = `"><script>alert(1)</script>` + "\x1b[2J"
	r := newRig(t)
	r.get(200, "/flow", "No type has a limit or a rate.", "No task with a tenant waits.", "No task waits for a lock.")
	r.web.shared.forget()
	policy := task.Policy{Timeout: time.Minute}
	hash := policy.Hash("")
	session, err := r.store.Join(t.Context(), store.Agent{
		Name: "billing-1", Workers: 4, Types: []string{"mail", "sms", evil}, Presence: time.Minute,
		Policies: map[task.PolicyHash]store.NamedPolicy{hash: {Type: "mail", Policy: policy}},
		Limits: []store.TypeLimit{
			{Name: "mail", Types: []string{"mail", evil}, Most: 2, Tenant: store.TenantLimit{Most: 1}},
			{Name: "sms", Types: []string{"sms"}, Rate: 0.5, Burst: 3},
		},
	})
	require.NoError(t, err)
	for range 3 {
		r.enqueue(store.EnqueueRequest{Type: "mail", Tenant: evil})
		r.enqueue(store.EnqueueRequest{Type: "sms", Lock: evil})
	}
	for i, typ := range []string{"mail", "sms"} {
		got, err := r.store.Claim(t.Context(), store.Claim{Session: session, Number: int64(i) + 1, Wants: []store.Want{
			{Type: typ, Phase: task.Run, Policy: hash, N: 3, Window: time.Minute},
		}})
		require.NoError(t, err)
		require.Len(t, got, 1)
	}
	page := r.get(200, "/flow", "1 of 2", "30/m, 3 at once", "2 may start", "&lt;script&gt;", "1 of 1", "full", `<a href="/tasks/2">2</a> <span class="muted">sms</span>`)
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "\x1b")
}

// TestPerTime writes rates as they are declared.
func TestPerTime(t *testing.T) {
	for rate, want := range map[float64]string{
		100: "100/s", 1: "1/s", 0.5: "30/m", 1.0 / 60: "1/m", 10.0 / 3600: "10/h", 0.1 / 3600: "0.1/h", 1.5: "1.5/s",
	} {
		require.Equal(t, want, perTime(rate))
	}
}
