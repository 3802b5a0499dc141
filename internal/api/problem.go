package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// maxDetail bounds what a problem says, in bytes: it may repeat what a client sent.
const maxDetail = 2000

// Problem answers with problem+json (RFC 9457).
func Problem(w http.ResponseWriter, status int, detail string) {
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + "…"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// An error here is the client's having gone away.
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}

// Quote shows what a client sent: quoted, and no longer than a line.
func Quote(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most]
	}
	return strconv.Quote(s)
}
