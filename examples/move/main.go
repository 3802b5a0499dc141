// Command move takes 200 services to another availability zone, as one batch. One of them cannot be moved; so all that
// have been are moved back, by the batch itself, and everything is as before. Then there is room, and all of them move.
// It needs nothing but Go, prints what it does, and fails where something is not as it should be.
//
// With -serve it is the application alone, for an agent that runs beside it: see README.md.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

//go:embed leasehold.hcl
var files embed.FS

func main() {
	leasehold := flag.String("leasehold", "bin/leasehold", "the agent's `binary`")
	alone := flag.Bool("serve", false, "serve the application, and play nothing")
	work := flag.Duration("work", 0, "how long it takes to move a service")
	lose := flag.Int64("lose", 0, "of how many answers to tasks one is lost; 0: none")
	flag.Parse()
	// A terminal that is gone, or a reader, is one more reason to tidy up.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	var err error
	if *alone {
		err = serve(ctx, *work, *lose)
	} else {
		err = runMove(ctx, *leasehold)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "move:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

// runMove plays the move.
func runMove(ctx context.Context, binary string) error {
	o := stage.Options{Name: "move", Binary: binary, Most: 50 * time.Second, Files: files}
	return stage.Run(ctx, o, func(ctx context.Context, s *stage.Stage) error {
		address, err := stage.FreeAddress(ctx)
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		s.Env = append(s.Env, "DATABASE_URL=sqlite:leasehold.db", "PORT="+port, "APP_URL=http://"+address,
			"WEBHOOK_SECRET="+stage.Secret())
		p := &scenario{Stage: s, address: address}
		return p.all(ctx)
	})
}
