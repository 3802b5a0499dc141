package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesOfOtherTools uses the attribute names of other tools in a task block, and expects an error with the name here.
func TestNamesOfOtherTools(t *testing.T) {
	for attr, want := range map[string]string{
		"max_retries = 5":          "retry { limit = 2 }",
		"retries = 5":              "retry { limit = 2 }",
		"attempts = 5":             "retry { limit = 2 }",
		"concurrency = 5":          "workers = 8",
		`schedule = "daily"`:       `schedule "name" { … }`,
		`cron = "0 3 * * *"`:       `schedule "name" { … }`,
		"schedule {\n}":            `schedule "name" { … }`,
		`queue = "mail"`:           "there are no queues",
		`cmd = "resize"`:           `command { argv = ["program", "argument"] }`,
		`command = "resize"`:       `command { argv = ["program", "argument"] }`,
		`url = "http://127.0.0.1"`: `webhook { url = "http://127.0.0.1:8080/tasks" }`,
		`webhook = "http://h"`:     `webhook { url = "http://127.0.0.1:8080/tasks" }`,
		"Max_Retries = 5":          "retry { limit = 2 }",
	} {
		_, err := load(t, "task \"a\" {\n  "+attr+"\n}\n", nil)
		require.Contains(t, report(err), want, attr)
		require.Contains(t, report(err), "line 2", attr)
	}
	for text, want := range map[string]string{
		"task \"a\" {\n  retry {\n    max_attempts = 3\n  }\n}\n":   "it is limit",
		"task \"a\" {\n  command {\n    cmd = \"x\"\n  }\n}\n":      "argv =",
		"task \"a\" {\n  webhook {\n    timeout = \"1s\"\n  }\n}\n": "beside webhook",
		"agent {\n  concurrency = 3\n}\n":                           "with workers",
		"store {\n  dsn = \"x\"\n}\n":                               "it is url",
		"job \"a\" {\n}\n":                                          `task "name" { … }`,
	} {
		_, err := load(t, text, nil)
		require.Contains(t, report(err), want, text)
	}
}

// TestCalledIsNotAllowed: what has a remedy is no name of its own in that block.
func TestCalledIsNotAllowed(t *testing.T) {
	for _, s := range []*shape{taskShape(), retryShape(), commandShape(), webhookShape(), agentShape(), storeShape(), scheduleShape(), fileShape()} {
		for name := range s.called {
			require.NotContains(t, s.names(), name, s.name)
		}
	}
}

func TestMissingPrograms(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "resize")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	plainFile := filepath.Join(dir, "notes")
	require.NoError(t, os.WriteFile(plainFile, nil, 0o600))
	t.Setenv("PATH", "/usr/bin:/bin")
	warnings := func(attrs string) string {
		cfg := mustLoad(t, "task \"a\" {\n  command {\n"+attrs+"\n  }\n}\n", nil)
		var b strings.Builder
		for _, w := range cfg.Warnings {
			fmt.Fprintln(&b, w.Place, w.Text)
		}
		return b.String()
	}
	for _, well := range []string{
		`argv = ["sh"]`, `argv = ["` + program + `"]`, "argv = [\"./resize\"]\ndir = \"" + dir + `"`,
		"argv = [\"resize\"]\nenv = { PATH = \"" + dir + `" }`,
	} {
		require.Empty(t, warnings(well), well)
	}
	for attrs, want := range map[string]string{
		`argv = ["no-such-program"]`:               `leasehold.hcl:3 The program "no-such-program" is not in PATH on this host (PATH=/usr/bin:/bin)`,
		`argv = ["./no-such-program"]`:             "does not exist on this host or is not executable",
		`argv = ["` + plainFile + `"]`:             "does not exist on this host or is not executable",
		"argv = [\"sh\"]\ndir = \"/no/such/dir\"":  `leasehold.hcl:4 The directory "/no/such/dir" does not exist on this host`,
		"argv = [\"sh\"]\nenv = { PATH = \"/x\" }": "(PATH=/x)",
	} {
		require.Contains(t, warnings(attrs), want, attrs)
	}
}

// TestReach declares agents off loopback, or webhooks elsewhere, without an address for pings.
func TestReach(t *testing.T) {
	config := func(agent, url, attrs, webhook string) string {
		return "agent {\n" + agent + "\n}\ntask \"a\" {\n" + attrs + "\n  webhook {\n    url = \"" + url + "\"\n" + webhook + "\n  }\n}\n"
	}
	const everywhere, beat = `listen = "0.0.0.0:7070"`, `heartbeat = "5s"`
	for _, c := range []struct{ text, refused, warned string }{
		{text: config(everywhere, "http://app:80/", beat, ""), refused: "No address for pings"},
		{text: config(`listen = ":7070"`, "http://10.0.0.7/", beat, ""), refused: `advertise = "http://HOST:7070"`},
		{text: config(`listen = "[::]:7070"`, "http://app/${task.id}", "", "async = true"), refused: "runs on app"},
		{text: config(everywhere, "http://app/", "", ""), warned: "Ping URLs point to 127.0.0.1"},
		{text: config("", "http://app/", beat, ""), warned: "Ping URLs point to 127.0.0.1"},
		{text: config("", "http://app/", "", "")},
		{text: config(everywhere, "http://localhost/", beat, "")},
		{text: config(everywhere, "http://[::1]:1/", beat, "")},
		{text: config(everywhere+"\nadvertise = \"http://10.0.0.7:7070\"", "http://app/", beat, "")},
		{text: config(`listen = "10.0.0.7:7070"`, "http://app/", beat, "")},
		{text: config(everywhere+"\nworkers = 0", "http://app/", beat, "")},
	} {
		cfg, err := load(t, c.text, nil)
		if c.refused != "" {
			require.Contains(t, report(err), c.refused, c.text)
			require.Contains(t, report(err), "line 2:", c.text)
			continue
		}
		require.NoError(t, err, c.text)
		if c.warned == "" {
			require.Empty(t, cfg.Warnings, c.text)
			continue
		}
		require.Len(t, cfg.Warnings, 1, c.text)
		require.Contains(t, cfg.Warnings[0].Text, c.warned)
	}
}
