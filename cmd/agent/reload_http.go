package main

import (
	"encoding/json"
	"net/http"
)

// reloadStatus is what a result is in HTTP.
func reloadStatus(result string) int {
	switch result {
	case reloadLoaded:
		return http.StatusOK
	case reloadWaits:
		return http.StatusAccepted
	case reloadInvalid:
		return http.StatusUnprocessableEntity
	case reloadRestart:
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// ServeHTTP reloads, and answers with what became of it.
func (r *reloader) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	q := &asking{by: "leasehold reload", answer: make(chan reloadReport, 1)}
	var report reloadReport
	select {
	case r.asked <- q:
		select {
		case report = <-q.answer: // within reloadWithin, unless a file does not let itself be read
		case <-req.Context().Done():
			return
		}
	case <-r.ended:
		report = r.ending()
	case <-req.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reloadStatus(report.Result))
	// An error here is the client's having gone away.
	_ = json.NewEncoder(w).Encode(report)
}
