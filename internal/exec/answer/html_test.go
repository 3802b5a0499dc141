package answer

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Pages of frameworks and proxies, shortened.
const (
	django = `
<!DOCTYPE html>
<html lang="en">
<head>
  <meta http-equiv="content-type" content="text/html; charset=utf-8">
  <title>ValueError at /tasks/greet</title>
  <style>html * { padding:0; margin:0; } body > div { border-bottom:1px solid #ddd; }</style>
  <script>function toggle(id) { if (a < b) { document.write("<p>never</p>"); } }</script>
</head>
<body>
<header id="summary">
  <h1>ValueError
       at /tasks/greet</h1>
  <pre class="exception_value">no such <b>cust</b>omer: 7 &lt; 8</pre>
  <table class="meta"><tr><th>Request Method:</th><td>POST</td></tr></table>
</header>
</body></html>`
	rails = `<!DOCTYPE html><html><head><meta charset="utf-8" /><title>Action Controller: Exception caught</title><style>` +
		"body { color: #333; }</style></head><body><header><h1>RuntimeError<span> in</span> TasksController#greet</h1></header>" +
		"<main><h2>the mail server is down</h2></main></body></html>"
	nginx = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n" +
		"<hr><center>nginx/1.27.0</center>\r\n</body>\r\n</html>\r\n"
	express = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Error</title>\n</head>\n<body>\n" +
		"<pre>Error: boom<br> &nbsp; &nbsp;at greet (/app/server.js:7:9)</pre>\n</body>\n</html>\n"
)

func TestWords(t *testing.T) {
	for name, c := range map[string]struct{ media, body, want string }{
		"Django":                  {"text/html", django, "ValueError at /tasks/greet no such customer: 7 < 8 Request Method: POST"},
		"Rails":                   {"text/html", rails, "Action Controller: Exception caught: RuntimeError in TasksController#greet the mail server is down"},
		"nginx, without a type":   {"", nginx, "502 Bad Gateway nginx/1.27.0"},
		"Express, as text":        {"text/plain", express, "Error: boom at greet (/app/server.js:7:9)"},
		"a title alone":           {"text/html", "<title>Down &amp; out</title>", "Down & out"},
		"no title":                {"text/html", "<body><p>first</p><p>second</p>", "first second"},
		"nothing to see":          {"text/html", "<!doctype html><html><head><script>alert(1)</script></head><body></body></html>", ""},
		"upper case":              {"", " \r\n<!DOCTYPE HTML><HTML><TITLE>A</TITLE><BODY>B", "A: B"},
		"a byte order mark":       {"", "\ufeff<html><body>B", "B"},
		"comments":                {"text/html", "a<!-- <b>not</b> this -->b<!-- nor this", "ab"},
		"pictures":                {"text/html", "<title>T</title><svg><title>logo</title><svg></svg><text>x</text></svg><svg/>shown", "T: shown"},
		"templates":               {"text/html", "<template>later</template>now", "now"},
		"what scripts replace":    {"text/html", "<noscript>turn it on</noscript><iframe>old</iframe>text", "text"},
		"control characters":      {"text/html", "a\x1b[31mb\x00c&#27;d", "a [31mb c d"},
		"text with a type":        {"text/html", "boom: 5 < 7", "boom: 5 < 7"},
		"XHTML":                   {"application/xhtml+xml", "<?xml version=\"1.0\"?><p>a</p>", "a"},
		"text that is no page":    {"text/plain", "use <html> here\nor there", "use <html> here or there"},
		"text about a doctype":    {"", "no <!doctype html>", "no <!doctype html>"},
		"JSON":                    {"application/json", `{"error": "<html>"}`, `{"error": "<html>"}`},
		"JSON that has a page":    {"application/json", ` <b>`, `<b>`},
		"nothing":                 {"text/html", "", ""},
		"a title that never ends": {"text/html", "<title>" + strings.Repeat("long ", 100), strings.Repeat("long ", 31) + "lo…"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Words(c.media, []byte(c.body))) })
	}
}

// Pages of any kind and length are read in bounded time and memory.
func TestWordsOfHostilePages(t *testing.T) {
	const much = 8 << 20
	many := func(s string) string { return "<html>" + strings.Repeat(s, much/len(s)) }
	for name, body := range map[string]string{
		"nested deeply":        "<html>" + strings.Repeat("<div>", 10_000) + "deep" + strings.Repeat("</div>", 10_000),
		"tags never closed":    many("<div><p><b>"),
		"hidden deeply":        many("<svg>"),
		"tags that end early":  many("<"),
		"attributes":           "<html><p " + strings.Repeat(`a="`, much/3),
		"many attributes":      "<html><p " + strings.Repeat("a=b ", much/4) + ">",
		"a comment":            many("<!--"),
		"ends of comments":     many("-->"),
		"a script":             "<html><script>" + strings.Repeat("</scrip", much/7),
		"scripts in scripts":   many("<script><!--<script>"),
		"references":           many("&amp"),
		"references for ever":  many("&#99999999999999999999999;"),
		"white space":          many(" \n\t"),
		"text":                 many("abc "),
		"one word":             many("x"),
		"a title":              "<html><title>" + strings.Repeat("&lt;", much/4),
		"NUL":                  many("\x00"),
		"no UTF-8":             many("\xff\xc0"),
		"declarations":         many("<![CDATA["),
		"a plain text for all": many("<plaintext>"),
	} {
		t.Run(name, func(t *testing.T) {
			page := []byte(body)
			began := time.Now()
			said := Words("text/html", page)
			require.Less(t, time.Since(began), 2*time.Second)
			require.LessOrEqual(t, len(said), MaxLine)
			require.True(t, utf8.ValidString(said))
			require.False(t, strings.ContainsFunc(said, unicode.IsControl), "%q", said)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Words("text/html", page)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}
