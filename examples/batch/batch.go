// An endpoint that gets many tasks in one request. Each line of the response ends one task, and is sent when that has ended.
package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"time"
)

func greet(name string) any { return map[string]string{"greeting": "Hello, " + name + "!"} }

func main() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Data struct {
				Tasks []struct {
					Data struct{ Name *string }
					Task struct{ ID int64 }
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, t := range body.Data.Tasks {
			line := map[string]any{"id": t.Task.ID, "error": "name is missing", "retryable": false}
			if t.Data.Name != nil {
				line = map[string]any{"id": t.Task.ID, "result": greet(*t.Data.Name)}
			}
			_ = json.NewEncoder(w).Encode(line)
			_ = http.NewResponseController(w).Flush()
		}
	})
	server := &http.Server{Addr: "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "8080"), Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	panic(server.ListenAndServe())
}
