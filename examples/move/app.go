package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// app is the application's HTTP side: a few requests of people, and those of the agent.
type app struct {
	db      *database
	webhook *webhooks.Webhook
	work    time.Duration // what it takes to move a service
	lose    int64         // every so many answers to tasks one is lost; 0: none
	answers atomic.Int64  // that tasks got, or should have
	missed  atomic.Int64  // of these, were lost
}

// envelope is what the application reads of an agent's request.
type envelope struct {
	Data json.RawMessage `json:"data"`
	Task struct {
		ID    int64  `json:"id"`
		Fence int64  `json:"fence"`
		Phase string `json:"phase"`
	} `json:"task"`
}

// serve serves the application until ctx ends.
func serve(ctx context.Context, work time.Duration, lose int64) error {
	db, err := openDatabase(setting("DATABASE_URL", "sqlite:leasehold.db"))
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // the process is about to end
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("make the application's tables: %w", err)
	}
	webhook, err := webhooks.NewWebhook(setting("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA=="))
	if err != nil {
		return fmt.Errorf("read the webhooks' secret: %w", err)
	}
	a := &app{db: db, webhook: webhook, work: work, lose: lose}
	server := &http.Server{
		Addr: "127.0.0.1:" + setting("PORT", "8080"), Handler: a.routes(), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func (a *app) routes() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /plans", a.plan)
	routes.HandleFunc("POST /moves", a.startMove)
	routes.HandleFunc("POST /services/{service}", a.byHand)
	routes.HandleFunc("POST /zones/{zone}", a.room)
	routes.HandleFunc("GET /zones", a.zones)
	routes.HandleFunc("GET /lost", a.lost)
	routes.Handle("POST /tasks/check", a.signed(a.check))
	routes.Handle("POST /tasks/move", a.signed(a.task(a.db.move)))
	routes.Handle("POST /tasks/undo", a.signed(a.task(a.db.undo)))
	routes.Handle("POST /tasks/finished", a.signed(a.task(a.db.finished)))
	return routes
}

// signed lets through what the agent has signed.
func (a *app) signed(next func(w http.ResponseWriter, r *http.Request, e envelope)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = a.webhook.Verify(body, r.Header)
		}
		if err != nil {
			answer(w, http.StatusUnauthorized, problem(err))
			return
		}
		var e envelope
		if err := json.Unmarshal(body, &e); err != nil {
			answer(w, http.StatusBadRequest, problem(err))
			return
		}
		next(w, r, e)
	})
}

// check reports whether a service is where the task would bring it: then the task has succeeded, and nothing runs.
func (a *app) check(w http.ResponseWriter, r *http.Request, e envelope) {
	var data struct{ Service, To string }
	err := json.Unmarshal(e.Data, &data)
	if err != nil {
		answer(w, http.StatusUnprocessableEntity, problem(err))
		return
	}
	done, err := a.db.isIn(r.Context(), data.Service, data.To)
	if err != nil {
		answer(w, http.StatusInternalServerError, problem(err))
		return
	}
	answer(w, http.StatusOK, map[string]any{"done": done})
}

// task answers an agent: the effect is made, or cannot be made, or goes wrong.
func (a *app) task(effect func(context.Context, envelope) (string, error)) func(http.ResponseWriter, *http.Request, envelope) {
	return func(w http.ResponseWriter, r *http.Request, e envelope) {
		// What takes long comes first, and the transaction when only the writes are left: on SQLite all other writers wait for it.
		select {
		case <-time.After(a.work):
		case <-r.Context().Done():
			return
		}
		result, err := effect(r.Context(), e)
		if err == nil && a.lose > 0 && a.answers.Add(1)%a.lose == 0 {
			a.missed.Add(1)
			panic(http.ErrAbortHandler) // it is done and committed, and the response is lost
		}
		switch {
		case errors.Is(err, errNoRoom):
			answer(w, http.StatusUnprocessableEntity, problem(err))
		case err != nil:
			answer(w, http.StatusInternalServerError, problem(err))
		default:
			answer(w, http.StatusOK, json.RawMessage(result))
		}
	}
}

// Requests of operators.

func (a *app) plan(w http.ResponseWriter, r *http.Request) {
	services, err := a.db.makePlan(r.Context(), r.FormValue("to"))
	respond(w, http.StatusCreated, map[string]any{"services": services}, err)
}

func (a *app) startMove(w http.ResponseWriter, r *http.Request) {
	batch, services, err := a.db.startMove(r.Context(), r.FormValue("to"))
	respond(w, http.StatusCreated, map[string]any{"batch": batch, "services": services}, err)
}

// byHand moves one service at once, without a task.
func (a *app) byHand(w http.ResponseWriter, r *http.Request) {
	to := place{r.FormValue("to"), r.FormValue("address")}
	err := a.db.moveByHand(r.Context(), r.PathValue("service"), to)
	respond(w, http.StatusOK, to, err)
}

// room gives a zone more room, or less.
func (a *app) room(w http.ResponseWriter, r *http.Request) {
	_, err := a.db.ExecContext(r.Context(), `UPDATE zone SET room = CAST($1 AS integer) WHERE name = $2`, r.FormValue("room"), r.PathValue("zone"))
	respond(w, http.StatusOK, map[string]any{}, err)
}

func (a *app) zones(w http.ResponseWriter, r *http.Request) {
	zones, err := a.db.zones(r.Context())
	respond(w, http.StatusOK, zones, err)
}

// lost responds with how many responses were lost.
func (a *app) lost(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"answers": a.missed.Load()})
}

// respond writes the response to an operator's request: the content, or the problem if there is an error.
func respond(w http.ResponseWriter, status int, content any, err error) {
	if err != nil {
		status, content = http.StatusConflict, problem(err)
	}
	answer(w, status, content)
}

func problem(err error) map[string]any { return map[string]any{"error": err.Error()} }

// answer writes JSON.
func answer(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content) // the client may be gone
}
