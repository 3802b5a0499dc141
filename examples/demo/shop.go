package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	_ "modernc.org/sqlite" // the driver
)

// shop is the application of the demo: it takes orders, and leaves what can wait to tasks. It knows of Leasehold only
// the table that it inserts into, and the requests that come back.
type shop struct {
	db      *sql.DB
	webhook *webhooks.Webhook
}

// There is one chair: a second order for it is rolled back.
const shopTables = `
CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, remaining INTEGER NOT NULL CHECK (remaining >= 0));
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, confirmed INTEGER, invoiced INTEGER);
INSERT INTO stock VALUES ('lamp', 100), ('chair', 1) ON CONFLICT DO NOTHING;`

// runShop serves the shop until ctx ends.
func runShop(ctx context.Context, listen, file, secret string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer db.Close() //nolint:errcheck // the process is about to end
	if _, err := db.ExecContext(ctx, shopTables); err != nil {
		return fmt.Errorf("make the shop's tables: %w", err)
	}
	webhook, err := webhooks.NewWebhook(secret)
	if err != nil {
		return fmt.Errorf("read the webhooks' secret: %w", err)
	}
	s := &shop{db: db, webhook: webhook}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /orders", s.order)
	routes.Handle("POST /tasks/confirm/{order}", s.signed(s.confirm))
	routes.Handle("POST /tasks/invoice/{order}", s.signed(s.invoice))
	routes.Handle("POST /tasks/charge", s.signed(s.charge))
	routes.Handle("POST /tasks/parcel", s.signed(s.parcel))
	server := &http.Server{
		Addr: listen, Handler: routes, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// errSoldOut rolls back an order.
var errSoldOut = errors.New("sold out")

// order writes an order and its tasks in one transaction. Either all of it is there, or nothing.
func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	item := r.FormValue("item")
	tasks, err := s.place(r.Context(), item)
	switch {
	case errors.Is(err, errSoldOut):
		answer(w, http.StatusConflict, map[string]any{"error": err.Error()})
	case err != nil:
		answer(w, http.StatusInternalServerError, map[string]any{"error": err.Error()})
	default:
		answer(w, http.StatusCreated, map[string]any{"tasks": tasks})
	}
}

func (s *shop) place(ctx context.Context, item string) (tasks []int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	var order int64
	if err := tx.QueryRowContext(ctx, `INSERT INTO orders (item) VALUES (?) RETURNING id`, item).Scan(&order); err != nil {
		return nil, err
	}
	for _, typ := range []string{"order.confirm", "invoice.send"} {
		var id int64
		err := tx.QueryRowContext(ctx, `INSERT INTO task (type, payload) VALUES (?, json_object('order', ?)) RETURNING id`,
			typ, order).Scan(&id)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, id)
	}
	// Only now does it turn out whether there is one left.
	done, err := tx.ExecContext(ctx, `UPDATE stock SET remaining = remaining - 1 WHERE item = ? AND remaining > 0`, item)
	if err != nil {
		return nil, err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return nil, errors.Join(err, errSoldOut)
	}
	return tasks, tx.Commit()
}

// signed lets through what the agent has signed.
func (s *shop) signed(next func(w http.ResponseWriter, r *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = s.webhook.Verify(body, r.Header)
		}
		if err != nil {
			answer(w, http.StatusUnauthorized, map[string]any{"error": err.Error()})
			return
		}
		next(w, r)
	})
}

// confirm is done at once. It is idempotent: a repeated request gets the same response.
func (s *shop) confirm(w http.ResponseWriter, r *http.Request) {
	order := r.PathValue("order")
	if _, err := s.db.ExecContext(r.Context(), `UPDATE orders SET confirmed = 1 WHERE id = ?`, order); err != nil {
		answer(w, http.StatusInternalServerError, map[string]any{"error": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]any{"confirmed": order})
}

// invoice fails at the first try of every order: the mail server "does not answer".
func (s *shop) invoice(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Leasehold-Attempt") == "1" {
		answer(w, http.StatusInternalServerError, map[string]any{"error": "the mail server does not answer"})
		return
	}
	order := r.PathValue("order")
	if _, err := s.db.ExecContext(r.Context(), `UPDATE orders SET invoiced = 1 WHERE id = ?`, order); err != nil {
		answer(w, http.StatusInternalServerError, map[string]any{"error": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]any{"invoice": "no. " + order})
}

// charge never works, and trying again would not help: 422 says so.
func (s *shop) charge(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusUnprocessableEntity, map[string]any{"error": "the card has expired"})
}

func (s *shop) parcel(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"parcel": "booked"})
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, content map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content) // the client may be gone
}
