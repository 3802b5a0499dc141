package rig

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
)

// lines answers a request of many tasks with a line for each, once it has parsed all of it.
func (s *Server) lines(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Type string `json:"type"`
		Data struct {
			Tasks []struct {
				Data json.RawMessage `json:"data"`
				Task struct {
					ID    int64 `json:"id"`
					Fence int64 `json:"fence"`
				} `json:"task"`
			} `json:"tasks"`
		} `json:"data"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.posts.Add(1)
	s.tasks.Add(int64(len(request.Data.Tasks)))
	s.bytes.Add(r.ContentLength)
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriter(w)
	for i := range request.Data.Tasks {
		_, _ = fmt.Fprintf(out, `{"id": %d, "result": null}`+"\n", request.Data.Tasks[i].Task.ID) // Flush has its error
	}
	_ = out.Flush() // the client has gone
}
