package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// row is a task with a payload.
func row(payload string) *task.Task {
	return &task.Task{
		ID: 9007199254740993, Type: "invoice.send", Attempt: 2, Key: "k/1", Region: "sg",
		Payload: json.RawMessage(payload), Labels: json.RawMessage(`{"tenant": "acme", "a b": "c"}`),
	}
}

// argument compiles one argument of a command.
func argument(t testing.TB, expr string, env map[string]string) task.Argument {
	t.Helper()
	cfg := mustLoad(t, fmt.Sprintf("task \"a\" {\n  command {\n    argv = [\"echo\", %s]\n  }\n}\n", expr), env)
	return cfg.Tasks[0].Target.(*task.Command).Argv[1]
}

func TestTemplates(t *testing.T) {
	const data = `{"s": "x", "n": 9007199254740993, "f": 1.50, "e": 1e3, "tiny": 1e-7, "b": true, "nil": null, "o": {"p": {"q": "deep"}},
		"list": ["zero", {"n": 1}], "neg": -5, "items": [{"name": "a"}, {"name": "b"}], "num": "12", "a b": "blank", "html": "<&>", "nfd": "e\u0301", "long": 12345678901234567890.123456789}`
	for _, c := range []struct{ expr, want string }{
		{`"plain"`, "plain"},
		{`"$${task.id} %%{if}"`, "${task.id} %{if}"},
		{`"${task.id}"`, "9007199254740993"},
		{`task.id`, "9007199254740993"},
		{`task["id"]`, "9007199254740993"},
		{`"${task.id + 1}"`, "9007199254740994"},
		{`"${task.type}/${task.attempt}"`, "invoice.send/2"},
		{`"${task.key} ${task.region}"`, "k/1 sg"},
		{`"${task.labels.tenant}"`, "acme"},
		{`"${task.labels["a b"]}"`, "c"},
		{`"${task.data.s}"`, "x"},
		{`"${task.data.n}"`, "9007199254740993"},
		{`"${task.data.n * 2}"`, "18014398509481986"},
		{`"${task.data.f}"`, "1.50"},
		{`"${task.data.e}"`, "1000"},
		{`"${task.data.tiny}"`, "0.0000001"},
		{`"${task.data.long}"`, "12345678901234567890.123456789"},
		{`"${task.data.long + 0}"`, "12345678901234567890.123456789"},
		{`"${task.data.b}"`, "true"},
		{`"${task.data.neg}"`, "-5"},
		{`"${task.data.o.p.q}"`, "deep"},
		{`"${task.data["a b"]}"`, "blank"},
		{`"${task.data.list[0]} ${task.data.list[1].n}"`, "zero 1"},
		{`"${task.data.list.0}"`, "zero"},
		{`"${task.data.nfd}"`, "e\u0301"}, // as it is in the row, not normalised
		{`"${upper(task.data.s)}"`, "X"},
		{`upper(task.data.s)`, "X"},
		{`"${task.data.num + 1}"`, "13"},
		{`"${task.data.b ? "yes" : "no"}"`, "yes"},
		{`"%{if task.data.b}yes%{else}no%{endif}"`, "yes"},
		{`"${task.data.nil == null}"`, "true"},
		{`"${lookup(task.data, "missing", "default")}"`, "default"},
		{`"${try(task.data.missing.more, "default")}"`, "default"},
		{`"${coalesce(task.data.nil, "default")}"`, "default"},
		{`"${jsonencode(task.data.o)}"`, `{"p":{"q":"deep"}}`},
		{`jsonencode(task.data.html)`, `"<&>"`},
		{`"${jsonencode(task.data.n)}"`, "9007199254740993"},
		{`"${jsonencode({ id = task.id, n = task.data.n })}"`, `{"id":9007199254740993,"n":9007199254740993}`},
		{`"${join("-", task.data.items[*].name)}"`, "a-b"},
		{`"${env("HOME_OF")}/${task.id}"`, "/srv/9007199254740993"},
		{`"${format("%05d", task.attempt)}"`, "00002"},
		{`"${strlen(task.data.s)}${length(task.data.list)}"`, "12"},
		{`"${contains(["x", "y"], task.data.s)}"`, "true"},
		{`"${jsondecode("{\"a\": ${task.attempt}}").a}"`, "2"},
	} {
		t.Run(c.expr, func(t *testing.T) {
			got, err := argument(t, c.expr, map[string]string{"HOME_OF": "/srv"}).Template(row(data))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestRowsThatFail names the field and the place of what a row lacks.
func TestRowsThatFail(t *testing.T) {
	const many = `"` + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + `"`
	for _, c := range []struct{ expr, data, want string }{
		{`"${task.data.missing}"`, `{}`, `task.data.missing: the row has no field "missing" at this place`},
		{`"${task.data.a.b}"`, `{"a": 1}`, `neither an object nor a list`},
		{`"${task.data.a.b}"`, `{"a": [1]}`, `is a list, which has no field`},
		{`"${task.data.a[3]}"`, `{"a": [1]}`, `the list in the row has 1 items, no index 3`},
		{`"${task.data.a[-1]}"`, `{"a": [1]}`, ``},
		{`"${task.data.a}"`, `{"a": null}`, `null`},
		{`"${task.data.a}"`, `{"a": {}}`, `jsonencode`},
		{`"${task.data}"`, `[]`, `jsonencode`},
		{`"${task.data.a}"`, `[]`, `list`},
		{`"${task.data.a}"`, `null`, `neither`},
		{`"${task.data.a}"`, `{"a": 1e999999999}`, `number is infinite, too long`},
		{`"${task.data.a + 1}"`, `{"a": 1e999999999}`, `number is infinite, too long`},
		{`"${task.data.a + 1}"`, `{"a": "1e999999999"}`, `number is infinite, too long`},
		{`"${task.data.a + 1}"`, `{"a": "1p999999999"}`, `number is infinite, too long`},
		{`"${-task.data.a}"`, `{"a": "1e999999999"}`, `number is infinite, too long`},
		{`"${max(task.data.a, 1)}"`, `{"a": "1e99999"}`, `number is infinite`},
		{`"${tonumber(task.data.a)}"`, `{"a": "1e999999999"}`, `number is infinite, too long`},
		{`"${jsondecode(task.data.a)}"`, `{"a": "1e999999999"}`, `number is infinite, too long`},
		{`"${task.data.a * task.data.a * task.data.a * task.data.a * task.data.a * task.data.a}"`, `{"a": 1e400}`,
			`number is infinite, too long`},
		{`"${task.data.a / 0}"`, `{"a": 1}`, `number is infinite`},
		{`"${upper(task.data.missing)}"`, `{}`, `upper(task.data.missing)`},
		{`"${upper(task.data.a)}"`, `{"a": {}}`, `string`},
		{`"${format(task.data.a, 1)}"`, `{"a": "%999999999d"}`, `four digits`},
		{`"${format("%[1]s%[1]s%[1]s", task.data.a)}"`, `{"a": "` + strings.Repeat("x", 400_000) + `"}`, `larger than`},
		{`"${replace(task.data.a, "", task.data.a)}"`, `{"a": "` + strings.Repeat("x", 4000) + `"}`, `larger than`},
		{`"${regexreplace(task.data.a, "", task.data.a)}"`, `{"a": "` + strings.Repeat("x", 4000) + `"}`, `larger than`},
		{`"${join(task.data.a, split("", task.data.a))}"`, `{"a": "` + strings.Repeat("x", 4000) + `"}`, `larger than`},
		{`"${length(split("", task.data.a))}"`, `{"a": "` + strings.Repeat("x", 20_000) + `"}`, `larger than`},
		{`"${task.data.a}${task.data.a}"`, `{"a": "` + strings.Repeat("x", 70_000) + `"}`, `more than 131071 bytes`},
		{`"${task.data.a}"`, `{"a": "x\u0000y"}`, `NUL`},
		{`"${length(task.data.a)}"`, `{"a": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, `deep`},
		{`"${length(task.data.a)}"`, `{"a": [` + strings.Repeat("0,", 20_000) + `0]}`, `more than 2000 values`},
		{`"${length(task.data.a)}"`, `{"a": [] x`, `not valid JSON`},
		{`"${task.data.a}"`, `{"a": [] x`, `not valid JSON`},
		{`"${regex(task.data.a, ` + many + `)}"`, `{"a": "("}`, `regex`},
	} {
		t.Run(c.expr+" "+c.data[:min(40, len(c.data))], func(t *testing.T) {
			_, err := argument(t, c.expr, nil).Template(row(c.data))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "leasehold.hcl:3: ")
			require.Less(t, len(err.Error()), 1000, "an error as long as the row")
		})
	}
	bare := &task.Task{Payload: json.RawMessage(`{}`)}
	for _, expr := range []string{`"${task.key}"`, `"${task.region}"`, `"${task.labels.x}"`, `"${upper(task.key)}"`,
		`upper(task.labels.x)`} {
		_, err := argument(t, expr, nil).Template(bare)
		require.ErrorContains(t, err, "leasehold.hcl:3: ", expr)
	}
}

// TestURLs shows that no row breaks out of where its value stands.
func TestURLs(t *testing.T) {
	const fixed = "http://127.0.0.1:8080/tasks/"
	hostile := []string{
		"/", "a/b", "//", "a/./b", "/admin", "?x=1", "#f", "a b", "%2f", "%25", "100%", "..a/b", "a..", "v1..v2", `a\b`, "é", "\n", "a\r\nHost: evil", "@evil", "://evil/", "a;b", "a&b=c", "+",
		"…", "\u202e", ":", "...", "\x00",
	}
	cfg := mustLoad(t, `
task "a" {
  webhook {
    url = "`+fixed+`${task.data.v}/run?q=${task.data.v}&r=${upper(task.data.v)}"
  }
}
`, nil)
	template := cfg.Tasks[0].Target.(*task.Webhook).URL
	for _, v := range hostile {
		t.Run(v, func(t *testing.T) {
			payload, err := json.Marshal(map[string]string{"v": v})
			require.NoError(t, err)
			got, err := template(row(string(payload)))
			require.NoError(t, err)
			u, err := url.Parse(got)
			require.NoError(t, err)
			require.Equal(t, "127.0.0.1:8080", u.Host)
			require.Empty(t, u.Fragment)
			require.Equal(t, "/tasks/"+v+"/run", u.Path)
			require.Equal(t, 3, strings.Count(u.EscapedPath(), "/"), "segments of %s", u.EscapedPath())
			require.Equal(t, v, u.Query().Get("q"))
			require.Equal(t, strings.ToUpper(v), u.Query().Get("r"))
			require.Len(t, u.Query(), 2)
		})
	}
	for _, v := range []string{"", ".", ".."} {
		_, err := template(row(`{"v": "` + v + `"}`))
		require.ErrorContains(t, err, "path segment", "%q", v)
	}
	// Servers decode, some of them twice, and take ".." for what it says afterwards.
	for _, v := range []string{
		"../admin", "..%2fadmin", "..%2Fadmin", "%2e%2e", "%2e%2e%2fadmin", "a/../../admin", `..\admin`, `\..\`, "..%5cadmin", "a/..",
		"%252e%252e%252fadmin", "..%252fadmin", "..;/admin", "..;a=b/admin", ".%2e/x", "%2e./x", ".%00./x", ". ./x", "..\t/x",
		"x%2f..%2f..%2fadmin", "%25252525252525252e", "..//x",
	} {
		payload, err := json.Marshal(map[string]string{"v": v})
		require.NoError(t, err)
		_, err = template(row(string(payload)))
		require.ErrorContains(t, err, "leasehold.hcl:4: the row makes a path segment", "%q", v)
	}
	_, err := template(row(`{"v": "` + strings.Repeat("x", 9000) + `"}`))
	require.ErrorContains(t, err, "longer than 8192")
}

// TestURLSegments puts row data beside fixed text within one segment.
func TestURLSegments(t *testing.T) {
	for _, c := range []struct{ url, v, want string }{
		{"http://h/.${task.data.v}", ".", ""},
		{"http://h/%2e${task.data.v}/x", ".", ""},
		{"http://h/${task.data.v}.", ".", ""},
		{"http://h/${task.data.v}${task.data.v}/", ".", ""},
		{"http://h/${task.data.v}?a", "..", ""},
		{"http://h/a${task.data.v}", "..", "http://h/a.."},
		{"http://h/.${task.data.v}", "./x", ""},
		{"http://h/a%2F${task.data.v}", "..", ""},
		{"http://h/a%5c${task.data.v}/b", "..", ""},
		{"http://h/..%2F${task.data.v}", "x", ""},
		{"http://h/a?to=${task.data.v}", "../..%2f", "http://h/a?to=..%2F..%252f"},
		{"http://h?q=${task.data.v}", "..", "http://h?q=.."},
		{"http://h/x?q=${task.data.v}", "", "http://h/x?q="},
		{"https://h:1/a/?${task.data.v}=1", "a=b", "https://h:1/a/?a%3Db=1"},
		{"http://h/${task.data.v}/?/../${task.data.v}", "x", "http://h/x/?/../x"},
	} {
		cfg := mustLoad(t, "task \"a\" {\n  webhook {\n    url = \""+c.url+"\"\n  }\n}\n", nil)
		got, err := cfg.Tasks[0].Target.(*task.Webhook).URL(row(`{"v": "` + c.v + `"}`))
		if c.want == "" {
			require.ErrorContains(t, err, "path segment", "%s %q gave %s", c.url, c.v, got)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestHeaderValues(t *testing.T) {
	cfg := mustLoad(t, `
task "a" {
  webhook {
    url     = "http://127.0.0.1/"
    headers = { X-Value = task.data.v, "X-Fixed" = 7 }
  }
}
`, nil)
	headers := cfg.Tasks[0].Target.(*task.Webhook).Headers
	require.Len(t, headers, 2)
	fixed, err := headers["X-Fixed"](row(`{}`))
	require.NoError(t, err)
	require.Equal(t, "7", fixed)
	for _, v := range []string{"a\r\nX-Evil: 1", "a\nb", "\x00", "\x7f", strings.Repeat("x", 9000)} {
		payload, err := json.Marshal(map[string]string{"v": v})
		require.NoError(t, err)
		_, err = headers["X-Value"](row(string(payload)))
		require.Error(t, err, "%q", v)
	}
	got, err := headers["X-Value"](row(`{"v": "é\tx"}`))
	require.NoError(t, err)
	require.Equal(t, "é\tx", got)
}

func TestDash(t *testing.T) {
	for expr, want := range map[string]bool{
		`"-v"`:                          true,
		`"--file=${task.data.f}"`:       true,
		`"${env("FLAG")}${task.id}"`:    true,
		`"${task.data.f}"`:              false,
		`task.data.f`:                   false,
		`"${task.data.f}-x"`:            false,
		`"x-${task.data.f}"`:            false,
		`task.data.f == "" ? "-a" : ""`: false,
	} {
		require.Equal(t, want, argument(t, expr, map[string]string{"FLAG": "-"}).Dash, expr)
	}
}

// TestTemplatesTogether runs templates that share what env and file read at the same time: -race watches.
func TestTemplatesTogether(t *testing.T) {
	a := argument(t, `"${upper(env("A"))}${file("leasehold.hcl") == "" ? 1 : 2}${task.data.n + 1}"`,
		map[string]string{"A": "x"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				got, err := a.Template(row(`{"n": 1}`))
				if err != nil || got != "X22" {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestReadOnce shows that a row's evaluation reads neither the environment nor files.
func TestReadOnce(t *testing.T) {
	reads := 0
	dir := write(t,
		map[string]string{"leasehold.hcl": "task \"a\" {\n  command {\n    argv = [\"echo\", \"${upper(env(\"A\"))}${task.id}\"]\n  }\n}\n"})
	cfg, err := Load([]string{dir}, Options{LookupEnv: func(string) (string, bool) { reads++; return "x", true }})
	require.NoError(t, err)
	require.Equal(t, 1, reads)
	for range 3 {
		_, err := cfg.Tasks[0].Target.(*task.Command).Argv[1].Template(row(`{}`))
		require.NoError(t, err)
	}
	require.Equal(t, 1, reads)
}

func BenchmarkTemplate(b *testing.B) {
	for name, expr := range map[string]string{
		"field": `"/tasks/${task.data.invoice}"`, "computed": `"/tasks/${upper(task.data.kind)}"`,
	} {
		b.Run(name, func(b *testing.B) {
			a, r := argument(b, expr, nil), row(`{"invoice": 7, "kind": "daily", "list": [1, 2, 3], "note": "some more text"}`)
			for b.Loop() {
				if _, err := a.Template(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
