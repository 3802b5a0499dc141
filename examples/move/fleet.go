package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// This file is what the application is for: it knows where services stand. Of Leasehold it knows the two statements that
// make a batch.

// place is where a service stands.
type place struct {
	Zone    string `json:"zone"`
	Address string `json:"address"`
}

// errNoRoom says that a service does not fit into a zone. Trying again would not help.
var errNoRoom = errors.New("the zone has no room for it")

// makePlan writes down which services are to go to a zone, and where they stand now.
func (d *database) makePlan(ctx context.Context, zone string) (services int64, err error) {
	err = d.inOne(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM plan`); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, `
INSERT INTO plan (service, to_zone, zone, address)
SELECT service.name, zone.name, service.zone, service.address FROM service, zone
WHERE zone.name = $1 AND service.zone <> zone.name`, zone)
		if err != nil {
			return err
		}
		services, err = done.RowsAffected()
		return err
	})
	return services, err
}

// startMove makes a batch of the plan: the batch, its tasks and the application's own note of it, or none of them.
func (d *database) startMove(ctx context.Context, zone string) (batch, services int64, err error) {
	err = d.inOne(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, d.batch, "move to "+zone).Scan(&batch); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, d.tasks, batch)
		if err != nil {
			return err
		}
		if services, err = done.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO relocation (batch, to_zone) VALUES ($1, $2)`, batch, zone)
		return err
	})
	return batch, services, err
}

// moveByHand moves one service at once, without a task.
func (d *database) moveByHand(ctx context.Context, service string, to place) error {
	return d.inOne(ctx, func(tx *sql.Tx) error { return put(ctx, tx, service, to) })
}

// zone is how full a zone is.
type zone struct {
	Name     string `json:"name"`
	Room     int    `json:"room"`
	Used     int    `json:"used"`
	Services int    `json:"services"`
}

func (d *database) zones(ctx context.Context) (zones []zone, err error) {
	rows, err := d.QueryContext(ctx, `
SELECT name, room, used, (SELECT count(*) FROM service WHERE service.zone = zone.name) FROM zone ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // it was read
	for rows.Next() {
		var z zone
		if err := rows.Scan(&z.Name, &z.Room, &z.Used, &z.Services); err != nil {
			return nil, err
		}
		zones = append(zones, z)
	}
	return zones, rows.Err()
}

// stands returns where a service runs, and how large it is.
func stands(ctx context.Context, tx *sql.Tx, service string) (p place, size int, err error) {
	row := tx.QueryRowContext(ctx, `SELECT zone, address, size FROM service WHERE name = $1`, service)
	err = row.Scan(&p.Zone, &p.Address, &size)
	return p, size, err
}

// bring brings a service to a zone, to the address that belongs to it there.
func bring(ctx context.Context, tx *sql.Tx, service, zone string) (to place, err error) {
	var address string
	err = tx.QueryRowContext(ctx, `
SELECT zone.network || service.number FROM service, zone WHERE service.name = $1 AND zone.name = $2`, service, zone).Scan(&address)
	if err != nil {
		return place{}, err
	}
	to = place{zone, address}
	return to, put(ctx, tx, service, to)
}

// put puts a service to a place, and moves what it takes from one zone's count to the other's.
func put(ctx context.Context, tx *sql.Tx, service string, to place) error {
	from, size, err := stands(ctx, tx, service)
	if err != nil {
		return err
	}
	take := func(zone string, units int) error {
		done, err := tx.ExecContext(ctx, `UPDATE zone SET used = used + $1 WHERE name = $2 AND used + $1 <= room`, units, zone)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("%s to %s: %w", service, zone, errNoRoom))
		}
		return nil
	}
	// Always in the same order, so that of two moves in opposite directions neither waits for the other.
	first, second, sign := to.Zone, from.Zone, 1
	if second < first {
		first, second, sign = second, first, -1
	}
	if err := errors.Join(take(first, sign*size), take(second, -sign*size)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE service SET zone = $1, address = $2 WHERE name = $3`, to.Zone, to.Address, service)
	return err
}

// note writes an effect into the journal. Its callers have locked the rows of both zones, so no other takes this number.
func note(ctx context.Context, tx *sql.Tx, e envelope, service, zone string) error {
	_, err := tx.ExecContext(ctx, `
INSERT INTO journal (n, task, fence, phase, service, zone)
VALUES ((SELECT coalesce(max(n), 0) + 1 FROM journal), $1, $2, $3, $4, $5)`, e.Task.ID, e.Task.Fence, e.Task.Phase, service, zone)
	return err
}

// isIn reports whether a service is in a zone.
func (d *database) isIn(ctx context.Context, service, zone string) (there bool, err error) {
	err = d.QueryRowContext(ctx, `SELECT zone = $1 FROM service WHERE name = $2`, zone, service).Scan(&there)
	return there, err
}

// move is a task's effect: the service goes where the task says.
func (d *database) move(ctx context.Context, e envelope) (result string, err error) {
	var data struct{ Service, To string }
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return "", err
	}
	return d.once(ctx, e.Task.ID, e.Task.Fence, func(tx *sql.Tx) (string, error) {
		to, err := bring(ctx, tx, data.Service, data.To)
		if err != nil {
			return "", err
		}
		return encode(to), note(ctx, tx, e, data.Service, to.Zone)
	})
}

// undo is what takes it back: the service goes where it stood before. Where the task has done nothing, there is nothing to
// undo; the journal knows.
func (d *database) undo(ctx context.Context, e envelope) (result string, err error) {
	var before struct {
		Service string
		place
	}
	if err := json.Unmarshal(e.Data, &before); err != nil {
		return "", err
	}
	return d.once(ctx, e.Task.ID, e.Task.Fence, func(tx *sql.Tx) (string, error) {
		var done int
		err := tx.QueryRowContext(ctx, `
SELECT coalesce(sum(CASE phase WHEN 'run' THEN 1 ELSE -1 END), 0) FROM journal WHERE task = $1`, e.Task.ID).Scan(&done)
		if err != nil || done == 0 {
			return encode(map[string]bool{"undone": false}), err
		}
		if err := put(ctx, tx, before.Service, before.place); err != nil {
			return "", err
		}
		return encode(map[string]bool{"undone": true}), note(ctx, tx, e, before.Service, before.Zone)
	})
}

// finished is notified how a batch has ended.
func (d *database) finished(ctx context.Context, e envelope) (result string, err error) {
	var data struct{ Batch json.RawMessage }
	var batch struct{ ID int64 }
	if err := errors.Join(json.Unmarshal(e.Data, &data), json.Unmarshal(data.Batch, &batch)); err != nil {
		return "", err
	}
	return d.once(ctx, e.Task.ID, e.Task.Fence, func(tx *sql.Tx) (string, error) {
		_, err := tx.ExecContext(ctx, `UPDATE relocation SET notified = notified + 1, report = $1 WHERE batch = $2`, string(data.Batch), batch.ID)
		return "{}", err
	})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("strings and booleans always marshal: " + err.Error())
	}
	return string(text)
}
