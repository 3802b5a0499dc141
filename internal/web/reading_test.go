package web

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"text/template/parse"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// everywhere makes a loopback listener look like one on every interface, so that tests open no port to the world.
type everywhere struct{ net.Listener }

func (everywhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 7070} }

const full, reader = "a-token-of-some-length", "another-to-read-with"

// listening has the dashboard answer on a listener off loopback, and returns what asks it with a token.
func (r *rig) listening() (ask func(token, method, path string) (*http.Response, string)) {
	r.t.Helper()
	l, err := api.Listen(r.t.Context(), "127.0.0.1:0")
	require.NoError(r.t, err)
	s := api.New(everywhere{l}, api.Options{
		Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Web: r.web, Refuse: r.web.Refuse,
		Access: api.Access{Token: full, ReadToken: reader},
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }() // ends with Shutdown
	transport := &http.Transport{}
	r.t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(r.t, s.Shutdown(context.Background()))
		require.NoError(r.t, <-ended)
	})
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(token, method, path string) (*http.Response, string) {
		q, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+l.Addr().String()+path, http.NoBody)
		require.NoError(r.t, err)
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set("Accept", "text/html")
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.Do(q)
		require.NoError(r.t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(r.t, err)
		require.NoError(r.t, resp.Body.Close())
		return resp, string(body)
	}
}

// TestReadersGetNoForms shows those who may only read the same pages without forms, whoever of both looked first a moment ago.
func TestReadersGetNoForms(t *testing.T) {
	r := newRig(t)
	ask := r.listening()
	id := r.enqueue(store.EnqueueRequest{Type: "x"})
	pages := map[string]string{ // and what can be done there
		"/": "", "/tasks?type=x": "/tasks/change", "/tasks/1": "/tasks/1/cancel", "/tasks/change?verb=cancel&type=x": `action="/changes"`,
		"/batches": "", "/chunks": "", "/schedules": "", "/flow": "", "/failures": "", "/types": "", "/types/x": "/types/x/pause", "/agents": "", "/doctor": "",
	}
	for path, form := range pages {
		for _, order := range [][]string{{full, reader}, {reader, full}} {
			r.web.shared.forget()
			for _, token := range order {
				resp, page := ask(token, "GET", path)
				require.Equal(t, 200, resp.StatusCode, page)
				require.Equal(t, token == reader, strings.Contains(page, "read only"), path)
				if token == full {
					require.Contains(t, page, form)
					continue
				}
				page = strings.Replace(page, `<form method="post" action="/settings">`, "", 1)
				require.NotContains(t, page, `method="post"`, path)
				if form != "" {
					require.NotContains(t, page, form, path)
				}
			}
		}
	}

	resp, page := ask(reader, "POST", "/tasks/1/cancel")
	require.Equal(t, 403, resp.StatusCode)
	require.Contains(t, page, "for reading only: to change something, give the `token`")
	require.Contains(t, page, "<html")
	require.Equal(t, policy, resp.Header.Get("Content-Security-Policy"))
	got, err := r.store.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, task.StatePending, got.State)
	resp, page = ask(full, "POST", "/tasks/1/cancel")
	require.Equal(t, 303, resp.StatusCode, page)
}

// TestReadersHaveTheirOwnAddresses: no address of a page leads to one that was read for others.
func TestReadersHaveTheirOwnAddresses(t *testing.T) {
	seen := map[string]string{}
	for _, target := range []string{"/", "/?a=b", "/read%20/", "/tasks", "/tasks?read+/tasks", "/read /tasks?x"} {
		for _, readOnly := range []bool{true, false} {
			u, err := url.Parse(target)
			require.NoError(t, err)
			key := address(&http.Request{URL: u}, readOnly)
			require.Empty(t, seen[key], "%s and %s are kept as %q", target, seen[key], key)
			seen[key] = target
		}
	}
}

// TestFormsAreGuarded reads the templates: each form and each button that leads to a change stands below {{if mayChange}}.
func TestFormsAreGuarded(t *testing.T) {
	free := []string{`<form method="post" action="/settings">`, `<form method="post" action="/sign-in">`} // the browser's own
	guarded := 0
	var walk func(name string, n parse.Node, below bool)
	walk = func(name string, n parse.Node, below bool) {
		branch := func(b *parse.BranchNode) {
			walk(name, b.List, below || b.NodeType == parse.NodeIf && b.Pipe.String() == "mayChange")
			if b.ElseList != nil {
				walk(name, b.ElseList, below)
			}
		}
		switch n := n.(type) {
		case *parse.ListNode:
			for _, kid := range n.Nodes {
				walk(name, kid, below)
			}
		case *parse.IfNode:
			branch(&n.BranchNode)
		case *parse.RangeNode:
			branch(&n.BranchNode)
		case *parse.WithNode:
			branch(&n.BranchNode)
		case *parse.TextNode:
			text := string(n.Text)
			for _, form := range free {
				text = strings.Replace(text, form, "", 1)
			}
			if strings.Contains(text, `method="post"`) || strings.Contains(text, "/tasks/change") {
				require.True(t, below, "in template %q, put this below {{if mayChange}}: %s", name, text)
				guarded++
			}
		}
	}
	for _, tmpl := range templates[false].Templates() {
		if tmpl.Tree != nil {
			walk(tmpl.Name(), tmpl.Tree.Root, false)
		}
	}
	require.Greater(t, guarded, 5)
}
