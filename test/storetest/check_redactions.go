package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func redactionChecks() []Check {
	return []Check{
		{"of the configuration that was loaded last", redactionsLast},
		{"of all present agents", redactionsOfAll},
		{"after a reload", redactionsReloaded},
		{"of many types at once", redactionsAtOnce},
	}
}

// masking is an agent of these types, with what it masks.
func (r *rig) masking(redact map[string][]string, types ...string) store.Agent {
	a := agent(r.name)
	a.Types, a.Redact = types, redact
	return a
}

// masks checks what is masked.
func (r *rig) masks(want map[string][]string) {
	r.t.Helper()
	got, err := r.Redactions(r.ctx)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

func redactionsLast(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.masks(map[string][]string{})
	join := func(redact map[string][]string, types ...string) {
		t.Helper()
		session, err := r.Join(r.ctx, r.masking(redact, types...))
		require.NoError(t, err)
		require.NoError(t, r.Leave(r.ctx, session))
		r.Advance(t, time.Millisecond)
	}
	odd := []string{"card", `a"b\c`, "é", "$.x", "0"}
	sorted := []string{"$.x", "0", `a"b\c`, "card", "é"}
	join(map[string][]string{"a": odd, "alias": odd}, "a", "alias", "b")
	r.masks(map[string][]string{"a": sorted, "alias": sorted})
	join(nil, "other")
	r.masks(map[string][]string{"a": sorted, "alias": sorted})
	join(map[string][]string{"a": {"cvv"}}, "a", "b")
	r.masks(map[string][]string{"a": {"cvv"}, "alias": sorted})
	join(nil, "a", "alias")
	r.masks(map[string][]string{})
	join(map[string][]string{"a": {"card"}}, "a")
	r.masks(map[string][]string{"a": {"card"}})
}

func redactionsOfAll(t testing.TB, h Harness) {
	r := newRig(t, h)
	first, err := r.Join(r.ctx, r.masking(map[string][]string{"a": {"card", "iban"}}, "a"))
	require.NoError(t, err)
	second, err := r.Join(r.ctx, r.masking(map[string][]string{"a": {"card", "cvv"}}, "a"))
	require.NoError(t, err)
	r.masks(map[string][]string{"a": {"card", "cvv", "iban"}})
	third, err := r.Join(r.ctx, r.masking(nil, "a"))
	require.NoError(t, err)
	r.masks(map[string][]string{"a": {"card", "cvv", "iban"}})
	require.NoError(t, r.Leave(r.ctx, first))
	r.Advance(t, time.Millisecond)
	r.masks(map[string][]string{"a": {"card", "cvv"}})
	require.NoError(t, r.Leave(r.ctx, second))
	r.Advance(t, time.Millisecond)
	r.masks(map[string][]string{})
	_, err = r.Present(r.ctx, store.Heartbeat{Session: second, Agent: r.masking(map[string][]string{"a": {"card", "cvv"}}, "a")})
	require.NoError(t, err)
	require.NoError(t, r.Leave(r.ctx, third))
	r.Advance(t, time.Hour) // none is present
	r.masks(map[string][]string{})
}

func redactionsReloaded(t testing.TB, h Harness) {
	r := newRig(t, h)
	beat := func(redact map[string][]string) {
		t.Helper()
		_, err := r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: r.masking(redact, "a", "b")})
		require.NoError(t, err)
	}
	beat(nil)
	r.masks(map[string][]string{})
	for range 2 {
		beat(map[string][]string{"a": {"card"}, "b": {"cvv"}})
		r.masks(map[string][]string{"a": {"card"}, "b": {"cvv"}})
	}
	beat(map[string][]string{"b": {"card"}})
	r.masks(map[string][]string{"b": {"card"}})
	r.Advance(t, time.Hour)
	r.masks(map[string][]string{"b": {"card"}})

	other, err := r.Join(r.ctx, r.masking(nil, "b"))
	require.NoError(t, err)
	r.masks(map[string][]string{})
	beat(map[string][]string{"b": {"card"}}) // present again, and no load
	r.masks(map[string][]string{"b": {"card"}})
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.NoError(t, r.Leave(r.ctx, other))
	r.Advance(t, time.Millisecond)
	r.masks(map[string][]string{})
}

func redactionsAtOnce(t testing.TB, h Harness) {
	r := newRig(t, h)
	const agents, types = 6, 30
	all, want := make([]string, types), map[string][]string{}
	for n := range all {
		all[n] = fmt.Sprintf("type-%d", n)
		want[all[n]] = []string{"card"}
	}
	var wg sync.WaitGroup
	errs := make([]error, agents)
	for n := range agents {
		o := r.other(fmt.Sprint("agent ", n))
		wg.Go(func() {
			for round := range 10 {
				redact := map[string][]string{}
				for i, typ := range all {
					if (i+n+round)%2 == 0 || round == 9 {
						redact[typ] = []string{"card"}
					}
				}
				a := o.masking(redact, all...)
				if _, errs[n] = o.Present(o.ctx, store.Heartbeat{Session: o.session, Agent: a}); errs[n] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	r.masks(want)
}
