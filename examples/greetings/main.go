// Greetings is the application that deploy/compose.yaml runs: it stores names, and enqueues a greeting for each in the transaction that
// stores it. It is the application of examples/python in Go, and uses nothing of Leasehold's.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	mostBody    = 1 << 20 // bytes of a request
	requestTime = 10 * time.Second
	uniqueTaken = "23505" // SQLSTATE
)

type application struct {
	db     *pgxpool.Pool
	signed *webhooks.Webhook
}

func main() {
	do := run
	if len(os.Args) == 2 && os.Args[1] == "healthy" {
		do = healthy
	}
	if err := do(context.Background()); err != nil {
		slog.Error("the application ends", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	signed, err := webhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		return fmt.Errorf("WEBHOOK_SECRET: %w", err)
	}
	if _, err := db.Exec(ctx, "CREATE TABLE IF NOT EXISTS greeting (name text PRIMARY KEY, greeted_by bigint)"); err != nil {
		return err
	}
	a := &application{db, signed}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /greetings", a.add)
	mux.HandleFunc("POST /greet", a.greet)
	mux.HandleFunc("GET /healthy", func(w http.ResponseWriter, r *http.Request) { a.reply(w, db.Ping(r.Context()), http.StatusOK, "ok") })
	server := http.Server{Addr: ":8080", Handler: http.TimeoutHandler(mux, requestTime, ""), ReadTimeout: requestTime}
	return server.ListenAndServe()
}

// healthy is the image's health check: there is no curl in it.
func healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080/healthy", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

const enqueue = "INSERT INTO leasehold.task (type, payload) VALUES ('greeting.send', jsonb_build_object('name', $1::text)) RETURNING id"

// add stores names and enqueues their greetings: all or nothing.
func (a *application) add(w http.ResponseWriter, r *http.Request) {
	var body struct{ Names []string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&body); err != nil {
		a.reply(w, nil, http.StatusBadRequest, err.Error())
		return
	}
	tasks := []int64{}
	ctx := r.Context()
	err := pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		for _, name := range body.Names {
			if _, err := tx.Exec(ctx, "INSERT INTO greeting (name) VALUES ($1)", name); err != nil {
				return err
			}
			var id int64
			if err := tx.QueryRow(ctx, enqueue, name).Scan(&id); err != nil {
				return err
			}
			tasks = append(tasks, id)
		}
		return nil
	})
	a.reply(w, err, http.StatusCreated, map[string]any{"tasks": tasks})
}

// greet is the callback. It may arrive more than once, so it changes only what is not done.
func (a *application) greet(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err == nil {
		err = a.signed.Verify(body, r.Header)
	}
	if err != nil {
		a.reply(w, nil, http.StatusUnauthorized, err.Error())
		return
	}
	var envelope struct {
		Data struct{ Name string }
		Task struct{ ID int64 }
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		a.reply(w, nil, http.StatusUnprocessableEntity, err.Error())
		return
	}
	done, err := a.db.Exec(r.Context(), "UPDATE greeting SET greeted_by = coalesce(greeted_by, $2) WHERE name = $1",
		envelope.Data.Name, envelope.Task.ID)
	if err == nil && done.RowsAffected() == 0 {
		a.reply(w, nil, http.StatusUnprocessableEntity, "no such name") // rejected: a retry would not help
		return
	}
	a.reply(w, err, http.StatusOK, map[string]string{"greeting": "Hello, " + envelope.Data.Name + "!"})
}

// reply writes content as JSON, or what an error of the database means.
func (*application) reply(w http.ResponseWriter, err error, status int, content any) {
	if err != nil {
		status, content = http.StatusInternalServerError, err.Error()
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == uniqueTaken {
			status = http.StatusConflict
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(content); err != nil {
		slog.Warn("a response was not sent", "err", err)
	}
}
