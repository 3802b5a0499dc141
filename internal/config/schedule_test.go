package config

import (
	"fmt"
	"strings"
	"testing"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"
)

// TestUndeclaredTasks: another configuration may declare the type of a schedule.
func TestUndeclaredTasks(t *testing.T) {
	cfg := mustLoad(t, `
schedule "a" {
  task  = "report.bild"
  every = "1d"
}

schedule "b" {
  task  = "old.report"
  every = "1d"
}

task "report.build" {
  aliases = ["old.report"]
  command {
    argv = ["/no/such/program"]
  }
}

schedule "c" {
  every = "1d"
  task  = "cleanup"
}
`, nil)
	require.Len(t, cfg.Schedules, 3)
	require.Equal(t, []string{cfg.Files[0] + ":2", cfg.Files[0] + ":19", "", ""}, []string{
		cfg.Place("schedule", "a"), cfg.Place("schedule", "c"), cfg.Place("schedule", "d"), cfg.Place("chunks", "a"),
	})
	require.Len(t, cfg.Warnings, 3)
	for i, want := range []string{
		`leasehold.hcl:3 The schedule "a" inserts tasks of the type "report.bild", which no task block of this configuration declares, ` +
			`so its agents will not run them. Did you mean "report.build"? Declare task "report.bild" { … }`,
		`leasehold.hcl:15 The file "/no/such/program"`,
		`leasehold.hcl:21 The schedule "c" inserts tasks of the type "cleanup", which no task block of this configuration declares, so its agents ` +
			`will not run them. Declare task "cleanup" { … }, unless agents with another configuration do.`,
	} {
		require.Contains(t, cfg.Warnings[i].Place+" "+cfg.Warnings[i].Text, want, "in the order of lines")
	}
}

// TestNamesOfOtherSchedulers uses the attribute names of other tools in a schedule, and expects an error with the name here.
func TestNamesOfOtherSchedulers(t *testing.T) {
	for attr, want := range map[string]string{
		`schedule = "0 3 * * *"`:       `it is cron = "0 3 * * *"`,
		`time_zone = "UTC"`:            "it is timezone",
		`interval = "5m"`:              `it is every = "15m"`,
		`args = {}`:                    "it is payload",
		`concurrencyPolicy = "Forbid"`: `use overlap = "skip" or "queue"`,
		`misfire_policy = "skip"`:      `use missed = "one", "all" or "none"`,
		`startingDeadlineSeconds = 3`:  "it is catch_up",
		"command {\n}":                 "it belongs in the task block",
		`name = "x"`:                   `schedule "name" { … }`,
		`catchup_ = "1d"`:              `Did you mean "catch_up"?`,
	} {
		_, err := load(t, "schedule \"a\" {\n  "+attr+"\n}\n", nil)
		require.Contains(t, report(err), want, attr)
		require.Contains(t, report(err), "line 2", attr)
	}
	_, err := load(t, "cron \"a\" {\n}\n", nil)
	require.Contains(t, report(err), `recurring tasks are schedule "name" { … }.`)
}

// TestNothingFollowsFromAMistake: an attribute that cannot be read is one problem, whichever it is.
func TestNothingFollowsFromAMistake(t *testing.T) {
	for _, attr := range scheduleShape().attrs {
		for _, value := range []string{`env("UNSET")`, `task.id`, `[1]`} {
			text := "schedule \"a\" {\n"
			for name, well := range map[string]string{"task": `"b"`, "cron": `"@daily"`, "timezone": `"Asia/Singapore"`, "jitter": `"2h"`} {
				kind := name == "cron" && (attr == "every" || attr == "after") || name == "timezone" && (attr == "every" || attr == "after")
				if name != attr && !kind {
					text += fmt.Sprintf("  %s = %s\n", name, well)
				}
			}
			_, err := load(t, text+"  "+attr+" = "+value+"\n}\n", nil)
			var p *Problems
			require.ErrorAs(t, err, &p, attr)
			require.Equal(t, 1, p.Count(), "%s\n%s", attr, report(err))
		}
	}
}

// TestRedactedPayloadIsNotRun: what was printed in place of a secret is refused.
func TestRedactedPayloadIsNotRun(t *testing.T) {
	const text = "schedule \"a\" {\n  task = \"b\"\n  every = \"1d\"\n  payload = { a = { token = \"geheim\" } }\n}\n"
	printed := effective(t, mustLoad(t, text, nil))
	require.Contains(t, printed, `payload  = { a = { token = "(redacted)" } }`)
	_, err := load(t, printed, nil)
	require.Contains(t, report(err), "Redacted secret")
	require.Contains(t, report(err), fmt.Sprintf("line %d", 1+strings.Count(printed[:strings.Index(printed, "payload")], "\n")))
}

// TestPayloadKeepsCalls: what the environment and files hold is not printed, wherever in a payload it is used.
func TestPayloadKeepsCalls(t *testing.T) {
	cfg := mustLoad(t, "schedule \"a\" {\n  task = \"b\"\n  every = \"1d\"\n  payload = { (env(\"NAME\")) = 1, list = [env(\"NAME\"), "+
		"{ b = \"x-${env(\"NAME\")}\" }] }\n}\n", map[string]string{"NAME": "hidden"})
	require.JSONEq(t, `{"hidden": 1, "list": ["hidden", {"b": "x-hidden"}]}`, string(cfg.Schedules[0].Payload))
	require.NotContains(t, effective(t, cfg), "hidden")
	require.Contains(t, effective(t, cfg), `{ (env("NAME")) = 1, list = [env("NAME"), { b = "x-${env("NAME")}" }] }`)
}
