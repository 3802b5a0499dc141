package web

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// placeholder is what a pattern has for a name, a number or a verb.
var placeholder = regexp.MustCompile(`\{\w+\}`)

// addresses are the patterns of pages or of changes with something for each placeholder; verb stands for what is to be done.
func addresses[T any](patterns map[string]T, name, verb string) (list []string) {
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		p = strings.NewReplacer("{$}", "", "{verb}", verb).Replace(p)
		list = append(list, placeholder.ReplaceAllString(p, name))
	}
	return list
}

// TestNoFormOfAStranger sends every form as pages of other sites, links and programs that speak JSON do.
func TestNoFormOfAStranger(t *testing.T) {
	r := newRig(t)
	id := r.enqueue(store.EnqueueRequest{Type: "1"})
	for _, verb := range []string{"cancel", "pause", "drain", "fire"} {
		for _, path := range addresses(r.web.changes(), "1", verb) {
			for _, header := range [][]string{
				{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}, {"Origin", "http://evil.example"},
				{"Origin", "http://localhost:7071"}, {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
			} {
				w := r.send("POST", path, "verb=cancel&type=1", header...)
				require.Equal(t, 403, w.Code, "%s %v", path, header)
				require.Empty(t, w.Header().Values("Set-Cookie"))
			}
			for _, media := range []string{"application/json", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded; \""} {
				require.Equal(t, 400, r.send("POST", path, "verb=cancel&type=1", "Content-Type", media).Code, "%s %s", path, media)
			}
			require.Equal(t, 400, r.send("POST", path, "type="+strings.Repeat("y", maxForm)).Code, path)
			for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
				w := r.send(method, path, "", "X-HTTP-Method-Override", "POST")
				require.Contains(t, []int{400, 404, 405}, w.Code, "%s %s", method, path)
			}
		}
	}
	got, err := r.store.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, task.StatePending, got.State)
	paused, err := r.store.Pauses(t.Context())
	require.NoError(t, err)
	require.Empty(t, paused)
}

// TestNoPageForAStranger asks for every page as another site's page does that wants to have it in itself.
func TestNoPageForAStranger(t *testing.T) {
	r := newRig(t)
	for _, path := range addresses(r.web.pages(), "1", "") {
		for _, dest := range []string{"iframe", "embed", "object", "image", "script", "style", "empty"} {
			for _, method := range []string{"GET", "HEAD"} {
				w := r.send(method, path, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", dest)
				require.Equal(t, 403, w.Code, "%s as %s", path, dest)
				require.NotContains(t, w.Body.String(), "<html")
			}
		}
		w := r.send("GET", path, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "document", "X-Leasehold-Part", "main")
		require.Equal(t, 403, w.Code, path)
		h := r.send("GET", path, "").Header()
		require.Equal(t, "no-store", h.Get("Cache-Control"), path)
		require.Equal(t, policy, h.Get("Content-Security-Policy"), path)
		require.Empty(t, h.Get("Access-Control-Allow-Origin"), path)
	}
}

// TestNamesOfPages has names and numbers that no store can be asked for.
func TestNamesOfPages(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"%00", "%ff", "a%00b"} {
		for _, path := range addresses(r.web.pages(), name, "") {
			if strings.Contains(path, name) {
				require.Equal(t, 400, r.send("GET", path, "").Code, path)
			}
		}
		for path := range r.web.changes() {
			verb := map[bool]string{true: "drain", false: "cancel"}[strings.HasPrefix(path, "/agents/")]
			path = placeholder.ReplaceAllString(strings.ReplaceAll(path, "{verb}", verb), name)
			if strings.Contains(path, name) {
				require.Equal(t, 400, r.send("POST", path, "x=1").Code, path)
			}
		}
	}
	for _, value := range []string{"a%00", "a%ff", strings.Repeat("y", store.MaxReason+1)} {
		for _, query := range []string{"type", "label", "error-signature", "since", "batch"} {
			require.Equal(t, 400, r.send("GET", "/tasks/change?verb=cancel&state=pending&"+query+"="+value, "").Code, "%s=%.9s", query, value)
		}
	}
}

// TestHostileLabels has labels that no store can be asked for.
func TestHostileLabels(t *testing.T) {
	r := newRig(t)
	for _, value := range []string{"x%3Da%00", "x%00%3Da", "x%3D%ff"} {
		for _, path := range []string{"/tasks?label=", "/tasks/change?verb=cancel&state=pending&label="} {
			require.Equal(t, 400, r.send("GET", path+value, "").Code, path+value)
		}
	}
}

// TestHostileCookies keeps the name that a browser sends as text, and within its bounds.
func TestHostileCookies(t *testing.T) {
	r := newRig(t)
	for n, value := range []string{
		"%00", "%ff", strings.Repeat("y", 4000), "%0d%0aSet-Cookie:%20a=b", url.QueryEscape("'); DROP TABLE task; --"),
		url.QueryEscape("<script>alert(1)</script>"),
	} {
		id := r.enqueue(store.EnqueueRequest{Type: "x"})
		w := r.send("POST", "/tasks/"+string(rune('1'+n))+"/cancel", "x=1", "Cookie", nameCookie+"="+value)
		require.Contains(t, []int{303, 400}, w.Code, value)
		require.Empty(t, w.Header().Get("Set-Cookie"), value)
		got, err := r.store.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, w.Code == http.StatusSeeOther, got.State == task.StateCancelled, value)
		page := r.send("GET", "/tasks/"+string(rune('1'+n)), "", "Cookie", nameCookie+"="+value+"; "+themeCookie+"="+value)
		require.Equal(t, 200, page.Code)
		require.NotContains(t, page.Body.String(), "<script>alert")
		require.Contains(t, page.Body.String(), `data-theme="auto"`)
	}
	for _, back := range []string{
		"//evil.example", `/\evil.example`, "https://evil.example", "/\t/evil.example", "javascript:alert(1)", "/%0d%0aSet-Cookie: a=b\r\n", "",
	} {
		w := r.send("POST", "/settings", url.Values{"theme": {"dark"}, "back": {back}}.Encode())
		require.Equal(t, 303, w.Code)
		to, err := url.Parse(w.Header().Get("Location"))
		require.NoError(t, err)
		require.True(t, to.Host == "" && to.Scheme == "" && strings.HasPrefix(to.Path, "/") && !strings.HasPrefix(to.Path, "//"), "%q leads to %s", back, to)
	}
}
