// Command demo shows Leasehold at work, in under a minute, with nothing installed but Go: an agent on its embedded
// store, a small application beside it, and tasks that go well and that do not. It ends with a table of what happened,
// and fails where that is not what should have.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

//go:embed files
var files embed.FS

func main() {
	leasehold := flag.String("leasehold", "bin/leasehold", "the agent's `binary`")
	serve := flag.String("shop", "", "only serve the shop, at this `address`")
	flag.Parse()
	// A terminal that is gone, or a reader, is one more reason to tidy up.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
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

// runDemo plays the demo.
func runDemo(ctx context.Context, binary string) error {
	root, err := fs.Sub(files, "files")
	if err != nil {
		return err
	}
	o := stage.Options{Name: "demo", Binary: binary, Most: 55 * time.Second, Files: root}
	return stage.Run(ctx, o, func(ctx context.Context, s *stage.Stage) error {
		listen, err := stage.FreeAddress(ctx) // the shop takes it, several times
		if err != nil {
			return err
		}
		s.Env = append(s.Env, "SHOP_URL=http://"+listen, "WEBHOOK_SECRET="+stage.Secret())
		d := &demo{Stage: s, listen: listen}
		return d.run(ctx)
	})
}
