package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	unixPrefix  = "unix://"
	socketUmask = 0o117       // a socket is open to its owner and group: a process that can open it needs no token
	dialTimeout = time.Second // to find out whether a socket file has an owner
)

// Listen opens the agent's listener on addr: "host:port" (port 0: any free one) or "unix:///path". A socket file that
// no process listens on any more is replaced. Its errors name the remedy. It is for the start of a process: what else makes
// files meanwhile may make them with a socket's rights.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		return listenUnix(ctx, path)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use: set `listen` in the agent block to another "+
			"(\"127.0.0.1:0\" takes any free one)", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: no permission for that port: "+
			"set `listen` in the agent block to one above 1023", addr)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w: check `listen` in the agent block", addr, err)
	}
	return l, nil
}

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s%s: %w", unixPrefix, path, err)
	}
	old := unix.Umask(socketUmask) // of the whole process
	defer unix.Umask(old)
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s%s: %w: check `listen` in the agent block", unixPrefix, path, err)
	}
	return l, nil
}

// removeStale removes a socket file whose listener is gone: one that was killed leaves it behind.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return errors.New("a file of that name exists that is not a socket: set `listen` in the agent block to another path")
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	c, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return errors.New("another process is listening on it: set `listen` in the agent block to another path")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("check whether the socket is in use: %w", err)
	}
	return os.Remove(path)
}

// Address is where a listener is reached, as a URL: http://127.0.0.1:7070, or unix:///path.
func Address(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixPrefix + l.Addr().String()
	}
	addr, err := netip.ParseAddrPort(l.Addr().String())
	if err == nil && addr.Addr().IsUnspecified() { // every interface: name one that works from here
		return fmt.Sprintf("http://127.0.0.1:%d", addr.Port())
	}
	return "http://" + l.Addr().String()
}

// local reports whether only this host can reach the listener.
func local(l net.Listener) bool {
	if l.Addr().Network() == "unix" {
		return true
	}
	addr, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && addr.Addr().Unmap().IsLoopback()
}
