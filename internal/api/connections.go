package api

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Bounds of the connections that a listener keeps open.
const (
	DefaultConnections = 2000 // where Options does not say: some 30 MB if all are used
	leastShare         = 8    // of one address
	crowdedEvery       = 30 * time.Second
)

// connections is the book of a listener's open connections. Anyone who reaches it can open as many as they like, so they
// are bounded, in all and for each address: for one too many the one that has waited for its next request the longest is
// closed, of the address that has the most. One whose request is being answered is never closed for another.
type connections struct {
	log *slog.Logger

	mu     sync.Mutex
	limit  int       // in all
	share  int       // of one address off this host
	freed  sync.Cond // a place may be free, or the book is closed; with mu
	closed bool
	open   int
	peers  map[netip.Prefix]*peer
	made   int       // connections closed for others since the last log line
	logged time.Time // when the last line was logged
}

// peer is an address from which connections come.
type peer struct {
	key     netip.Prefix
	open    int
	share   int
	waiting list.List // of *connection: those that wait for their next request, the longest first
}

// connection is one of them.
type connection struct {
	net.Conn
	book *connections
	peer *peer
	at   *list.Element // in peer.waiting; nil: its request is being answered, or it is closed
	gone bool
	// silent: it has sent nothing yet. net/http counts such a connection as busy for 5 s.
	silent bool
}

func newConnections(limit int, log *slog.Logger) *connections {
	b := &connections{log: log, peers: make(map[netip.Prefix]*peer)}
	b.freed.L = &b.mu
	b.bound(limit)
	return b
}

// bound sets how many there may be in all; 0: DefaultConnections.
func (b *connections) bound(limit int) {
	if limit <= 0 {
		limit = DefaultConnections
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.limit
	b.limit, b.share = limit, max(limit/2, min(leastShare, limit))
	for _, p := range b.peers {
		if p.share == before { // of this host
			p.share = b.limit
		} else {
			p.share = b.share
		}
	}
	b.freed.Broadcast()
}

// listener hands out connections that are in the book.
type listener struct {
	net.Listener
	book *connections
}

// Accept waits for a connection and for a place for it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn := l.book.admit(c); conn != nil {
			return conn, nil
		}
		_ = c.Close()
	}
}

// Close ends Accept, too where it waits for a place.
func (l *listener) Close() error {
	l.book.mu.Lock()
	l.book.closed = true
	l.book.freed.Broadcast()
	l.book.mu.Unlock()
	return l.Listener.Close()
}

// admit enters a connection into the book, and closes another for it where there is no place. It waits while all are
// being answered, which is bounded for each. nil: it is refused, as its address has all that it may have, or the listener
// is closed.
func (b *connections) admit(c net.Conn) *connection {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, share := b.address(c)
	for !b.closed {
		p := b.peers[key]
		if p == nil {
			p = &peer{key: key, share: share}
		}
		full := p
		if p.open < p.share {
			full = b.largest()
		}
		if b.open < b.limit && p.open < p.share {
			b.peers[key] = p
			p.open++
			b.open++
			conn := &connection{Conn: c, book: b, peer: p, silent: true}
			conn.at = p.waiting.PushBack(conn)
			return conn
		}
		switch {
		case full != nil && full.waiting.Len() > 0:
			b.evict(full)
		case full == p && p.share < b.limit: // it is answered as often at once as its share allows
			return nil
		default:
			b.freed.Wait()
		}
	}
	return nil
}

// largest is the address with the most connections among those of which one waits; nil where there is none. mu is held.
func (b *connections) largest() (most *peer) {
	if b.open < b.limit {
		return nil
	}
	for _, p := range b.peers {
		if p.waiting.Len() > 0 && (most == nil || p.open > most.open) {
			most = p
		}
	}
	return most
}

// evict closes the connection of an address that has waited the longest. mu is held.
func (b *connections) evict(p *peer) {
	c, _ := p.waiting.Front().Value.(*connection)
	b.remove(c)
	_ = c.Conn.Close() // it does not block: there is no lingering
	b.made++
	if now := time.Now(); now.Sub(b.logged) >= crowdedEvery {
		b.log.Warn("the listener has reached its limit of connections and closes those that have waited longest",
			"connections", b.open+1, "limit", b.limit, "closed", b.made)
		b.made, b.logged = 0, now
	}
}

// closeSilent closes the connections that have sent nothing yet, so that a shutdown need not wait for their first request.
func (b *connections) closeSilent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.peers {
		for at := p.waiting.Front(); at != nil; {
			c, _ := at.Value.(*connection)
			at = at.Next()
			if c.silent {
				b.remove(c)
				_ = c.Conn.Close()
			}
		}
	}
}

// remove takes a connection out of the book. mu is held.
func (b *connections) remove(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	if c.at != nil {
		c.peer.waiting.Remove(c.at)
		c.at = nil
	}
	b.open--
	if c.peer.open--; c.peer.open == 0 {
		delete(b.peers, c.peer.key)
	}
	b.freed.Signal()
}

// Close closes the connection and takes it out of the book.
func (c *connection) Close() error {
	c.book.mu.Lock()
	c.book.remove(c)
	c.book.mu.Unlock()
	return c.Conn.Close()
}

// begin notes that a request is being answered; ok is false where the connection has just been closed for another.
// crowded: it should not be kept for the next.
func (c *connection) begin() (crowded, ok bool) {
	b := c.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.gone {
		return false, false
	}
	c.peer.waiting.Remove(c.at)
	c.at = nil
	return b.open >= b.limit*3/4 || c.peer.open >= c.peer.share*3/4, true
}

// idle notes that the response is written, and that the connection waits for its next request.
func (c *connection) idle() {
	b := c.book
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c.gone:
	case c.at != nil: // the server has answered on its own, without the handler
		c.peer.waiting.MoveToBack(c.at)
	default:
		c.at = c.peer.waiting.PushBack(c)
		b.freed.Signal()
	}
}

// address is what shares are counted by, and the share: an address, of IPv6 the network that one host has; all of this
// host may have all there is.
func (b *connections) address(c net.Conn) (netip.Prefix, int) {
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil { // a Unix socket
		return netip.Prefix{}, b.limit
	}
	addr := remote.Addr().Unmap().WithZone("")
	if addr.IsLoopback() {
		return netip.Prefix{}, b.limit
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.PrefixFrom(addr, addr.BitLen()), b.share
	}
	return prefix, b.share
}

// connectionKey is where the context of a request has its connection.
type connectionKey struct{}

// withConnection is http.Server's ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// connState is http.Server's ConnState. A handler returns before its response is written, so that only the server knows when
// a connection may be closed for another one.
func connState(c net.Conn, state http.ConnState) {
	conn, ok := c.(*connection)
	switch {
	case !ok:
	case state == http.StateActive:
		conn.book.mu.Lock()
		conn.silent = false
		conn.book.mu.Unlock()
	case state == http.StateIdle:
		conn.idle()
	}
}

// booked keeps the book of the connections whose requests next answers.
func booked(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connectionKey{}).(*connection)
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		crowded, ok := c.begin()
		if !ok {
			panic(http.ErrAbortHandler) // nothing has been done yet, and no reply can be sent
		}
		if crowded {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	}
}
