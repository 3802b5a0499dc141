package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// proxy stands between a store and the server, as a pooler or a bad network does. It knows messages as the protocol
// frames them (PostgreSQL documentation, 55.2): a type, four bytes of length, a body.
type proxy struct {
	URL string

	// startup answers a connection's startup packet itself, where it returns a message.
	startup func(packet []byte) []byte
	// message sees each message of the server's, and reports whether to pass it on (true, nil), to drop it, or, with an
	// error, to cut the connection.
	message func(kind byte, body []byte) (pass bool, err error)
}

// start listens, and stops when the test is over.
func (p *proxy) start(t testing.TB) *proxy {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	server := u.Host
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u.Host = l.Addr().String()
	p.URL = u.String()
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
	}
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			keep(client)
			all.Go(func() { p.serve(client, server, keep) })
		}
	})
	t.Cleanup(func() {
		shut(l)
		mu.Lock()
		for _, c := range open {
			shut(c)
		}
		mu.Unlock()
		all.Wait()
	})
	return p
}

// shut closes what may be closed already.
func shut(c io.Closer) { _ = c.Close() }

// serve carries one connection until either side ends it.
func (p *proxy) serve(client net.Conn, server string, keep func(net.Conn)) {
	defer shut(client)
	packet, err := readBody(client, nil)
	if err != nil {
		return
	}
	if p.startup != nil {
		if answer := p.startup(packet[4:]); answer != nil {
			_, _ = client.Write(answer)
			return
		}
	}
	up, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", server)
	if err != nil {
		return
	}
	keep(up)
	defer shut(up)
	if _, err := up.Write(packet); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer shut(client)
		defer shut(up)
		p.back(client, up)
	})
	_, _ = io.Copy(up, client)
	shut(up)
	back.Wait()
}

// back carries the server's messages.
func (p *proxy) back(client, up net.Conn) {
	for {
		kind := make([]byte, 1)
		if _, err := io.ReadFull(up, kind); err != nil {
			return
		}
		message, err := readBody(up, kind)
		if err != nil {
			return
		}
		pass := true
		if p.message != nil {
			if pass, err = p.message(kind[0], message[5:]); err != nil {
				return
			}
		}
		if !pass {
			continue
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

// readBody reads a length and what belongs to it, and returns all that was read after head.
func readBody(c net.Conn, head []byte) ([]byte, error) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(c, length); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length)
	if n < 4 || n > 1<<26 {
		return nil, errors.New("not a message")
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	return append(append(head, length...), body...), nil
}

// refusal is an ErrorResponse.
func refusal(sqlstate, text string) []byte {
	body := "SFATAL\x00VFATAL\x00C" + sqlstate + "\x00M" + text + "\x00\x00"
	message := binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(body)+4))
	return append(message, body...)
}
