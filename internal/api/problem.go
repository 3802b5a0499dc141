package api

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// problem answers with problem+json (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// An error here is the client's having gone away.
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}

// quote shows what a client sent: quoted, and no longer than a line.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most]
	}
	return strconv.Quote(s)
}
