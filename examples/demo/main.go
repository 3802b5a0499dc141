// Command demo shows Leasehold at work, in under a minute, with nothing installed but Go: an agent on its embedded
// store, a small application beside it, and tasks that go well and that do not. It ends with a table of what happened,
// and fails where that is not what should have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	leasehold := flag.String("leasehold", "bin/leasehold", "the agent's `binary`")
	serve := flag.String("shop", "", "only serve the shop, at this `address`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if *serve != "" {
		err = runShop(ctx, *serve, "leasehold.db", os.Getenv("WEBHOOK_SECRET"))
	} else {
		err = runDemo(ctx, *leasehold)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

// mostTime is how long the demo may take.
const mostTime = 55 * time.Second

// runDemo makes a directory for the demo, plays it there and removes it.
func runDemo(user context.Context, binary string) (err error) {
	ctx, cancel := context.WithTimeoutCause(user, mostTime, fmt.Errorf("it took more than %s", mostTime))
	defer cancel()
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leasehold-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := newDemo(ctx, dir, binary)
	if err != nil {
		return err
	}
	d.say("Everything happens in %s, which is removed at the end.", dir)
	err = errors.Join(d.play(ctx), d.close())
	if user.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		for _, p := range []*process{d.agent, d.shop} {
			if p != nil {
				fmt.Fprintf(os.Stderr, "\n--- what the %s said last ---\n%s", p.name, p.tail())
			}
		}
	}
	return err
}
