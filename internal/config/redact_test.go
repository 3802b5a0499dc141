package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedact(t *testing.T) {
	target := "\n  command {\n    argv = [\"sh\"]\n  }\n}\n"
	cfg := mustLoad(t, "task \"a\" {\n  redact = [\"card\", \"a.b\", \"e\u0301\", env(\"ONE\")]"+target+"task \"b\" {"+target, map[string]string{"ONE": "1"})
	require.Equal(t, []string{"card", "a.b", "\u00e9", "1"}, cfg.Type("a").Redact)
	require.Nil(t, cfg.Type("b").Redact)
	fields := map[string]string{}
	for _, b := range cfg.Blocks() {
		fields[b.Name] = b.Fields["redact"]
	}
	require.Equal(t, `["card", "a.b", "e`+"\u0301"+`", env("ONE")]`, fields["a"])
	require.Empty(t, fields["b"], "a type without it is printed as before")
}

// Members that a type redacts are not shown where a schedule has them.
func TestRedactedMembersOfSchedules(t *testing.T) {
	cfg := mustLoad(t, `
task "pay" {
  aliases = ["paid"]
  redact  = ["card"]
  command {
    argv = ["sh"]
  }
}
schedule "alias" {
  task    = "paid"
  cron    = "@daily"
  payload = { card = "4111 1", n = { "card" = ["4111 2", 4111] }, m = { "ca${"rd"}" = { x = "4111 3" } } }
}
schedule "computed" {
  task    = "pay"
  cron    = "@daily"
  payload = merge({ card = "4111 4" }, { k = 7 })
}
schedule "other" {
  task    = "else"
  cron    = "@daily"
  payload = { card = "shown" }
}
`, nil)
	require.JSONEq(t, `{"card": "4111 4", "k": 7}`, string(cfg.Schedules[1].Payload), "tasks get all of it")
	var text strings.Builder
	require.NoError(t, cfg.Effective(&text))
	for _, b := range cfg.Blocks() {
		text.WriteString(b.Fields["payload"] + "\n")
	}
	require.NotContains(t, text.String(), "4111")
	require.Contains(t, text.String(), `card = "(redacted)"`)
	require.Contains(t, text.String(), `"shown"`)
}
