package rig

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Producer inserts rows as an application does, each in a transaction of its own.
type Producer interface {
	Insert(ctx context.Context, payload string) error
	Close()
}

// sqlProducer inserts with one statement.
type sqlProducer struct {
	conn *pgx.Conn
	sql  string
}

// SQLProducer makes producers that run a statement with the payload as its parameter.
func SQLProducer(sql string) func(ctx context.Context, url string) (Producer, error) {
	return func(ctx context.Context, url string) (Producer, error) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		return &sqlProducer{conn, sql}, nil
	}
}

func (p *sqlProducer) Insert(ctx context.Context, payload string) error {
	_, err := p.conn.Exec(ctx, p.sql, payload)
	return err
}

func (p *sqlProducer) Close() { _ = p.conn.Close(context.Background()) } // nothing is lost with it
