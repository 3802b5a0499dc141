package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/leasehold/leasehold/internal/api"
)

// keepSettings is how long a browser keeps what its user prefers.
const keepSettings = 365 * 24 * time.Hour

func unescape(s string) (string, error) { return url.QueryUnescape(s) }

// settings keeps what a user prefers, in the browser.
func (d *Dashboard) settings(w http.ResponseWriter, r *request) (string, error) {
	for name, field := range map[string]string{themeCookie: "theme", nameCookie: "name"} {
		if !r.PostForm.Has(field) {
			continue
		}
		value := r.PostForm.Get(field)
		if len(value) > mostName {
			return "", &mistaken{"a name has 100 bytes at most"}
		}
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where the browser speaks TLS: the agent itself does not
			Name: name, Value: url.QueryEscape(value), Path: "/", MaxAge: int(keepSettings / time.Second), HttpOnly: true,
			SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
		})
	}
	return api.Local(r.PostForm.Get("back")), nil
}

// signIn shows the form in which a token is given. The listener takes it: see package api.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	data := struct {
		Back  string
		Wrong bool
	}{api.Local(r.URL.Query().Get("back")), r.URL.Query().Has("wrong")}
	v := &view{Title: "Sign in", Name: "signin", Data: data}
	main, err := rendered(v, true)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.write(w, r, status, v, main)
}
