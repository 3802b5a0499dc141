package ping

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/leasehold/leasehold/internal/task"
)

// Lengths of a token's parts.
const (
	minSecret = 32 // bytes
	macBytes  = 18 // of SHA-256's 32: 144 bits, and no bits of the last base64 digit are without meaning
	macDigits = macBytes / 3 * 4
)

// What is signed begins with what for: a token is good for pings and nothing else, and a trace reveals nothing of tokens.
const (
	purpose      = "leasehold ping 1\n"
	tracePurpose = "leasehold trace 1\n"
	batchPurpose = "leasehold batch trace 1\n"
	slotPurpose  = "leasehold slot trace 1\n"
)

// Path is where ping URLs begin on an agent's listener.
const Path = "/ping/"

// Signer makes and checks ping URLs: `<id>.<fence>.<mac>` names one attempt, and only who knows the store's secret can
// make it. It is safe for use by many at once.
type Signer struct {
	states sync.Pool // of *signing
}

// signing is an HMAC in the state in which only the message is missing.
type signing struct {
	mac     hash.Hash
	message []byte
	sum     []byte
}

// NewSigner makes a signer with the store's own secret, 32 bytes at least.
func NewSigner(secret []byte) (*Signer, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the store's secret for ping URLs has %d bytes, but at least %d are required", len(secret), minSecret)
	}
	key := append([]byte(nil), secret...)
	s := &Signer{}
	s.states.New = func() any { return &signing{mac: hmac.New(sha256.New, key)} }
	return s, nil
}

// URL is the ping URL of an attempt; base is where the agent is reached, as http://host:port.
func (s *Signer) URL(base string, id task.ID, f task.Fence) string {
	base = strings.TrimRight(base, "/")
	b := make([]byte, 0, len(base)+len(Path)+2*20+macDigits)
	b = append(b, base...)
	b = append(b, Path...)
	b = strconv.AppendInt(b, int64(id), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(f), 10)
	b = append(b, '.')
	return string(s.appendMAC(b, id, f))
}

// Trace is the trace context (W3C Trace Context, level 1) of a task that was inserted without one. It follows from the
// store's secret and the id, so that all attempts of a task are in one trace, whichever agents run them, and nothing has to
// be written.
func (s *Signer) Trace(id task.ID) string {
	x, _ := s.states.Get().(*signing)
	x.message = append(x.message[:0], tracePurpose...)
	x.message = strconv.AppendInt(x.message, int64(id), 10)
	return s.trace(x)
}

// BatchTrace is the trace context of a batch: that of the span which the agent exports that ends it.
func (s *Signer) BatchTrace(id task.BatchID) string {
	x, _ := s.states.Get().(*signing)
	x.message = append(x.message[:0], batchPurpose...)
	x.message = strconv.AppendInt(x.message, int64(id), 10)
	return s.trace(x)
}

// SlotTrace is the trace context of a schedule's slot, as payloads have it: that of the span which the agent exports that fires it.
func (s *Signer) SlotTrace(schedule, slot string) string {
	x, _ := s.states.Get().(*signing)
	x.message = append(x.message[:0], slotPurpose...)
	x.message = strconv.AppendInt(x.message, int64(len(schedule)), 10) // so that no two pairs are the same message
	x.message = append(x.message, ' ')
	x.message = append(append(x.message, schedule...), slot...)
	return s.trace(x)
}

// trace makes a trace context of the message, and puts x back.
func (s *Signer) trace(x *signing) string {
	x.mac.Reset()
	_, _ = x.mac.Write(x.message) // a hash never fails
	x.sum = x.mac.Sum(x.sum[:0])
	const traceBytes, spanBytes = 16, 8
	b := append(make([]byte, 0, 55), "00-"...)
	b = hex.AppendEncode(b, x.sum[:traceBytes])
	b = append(b, '-')
	b = hex.AppendEncode(b, x.sum[traceBytes:traceBytes+spanBytes])
	s.states.Put(x)
	return string(append(b, "-01"...))
}

// Parse returns which attempt a token stands for. ok is false for one that was not made by URL, down to the byte.
func (s *Signer) Parse(token string) (id task.ID, f task.Fence, ok bool) {
	numbers, mac, _ := cutLast(token)
	first, second, _ := strings.Cut(numbers, ".")
	n, ok1 := positive(first)
	m, ok2 := positive(second)
	if !ok1 || !ok2 || len(mac) != macDigits {
		return 0, 0, false
	}
	want := s.appendMAC(make([]byte, 0, macDigits), task.ID(n), task.Fence(m))
	if subtle.ConstantTimeCompare([]byte(mac), want) != 1 {
		return 0, 0, false
	}
	return task.ID(n), task.Fence(m), true
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// positive reads a number above 0 as strconv writes it: no sign, no leading zeros.
func positive(s string) (int64, bool) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0
}

// appendMAC appends the mac of an attempt.
func (s *Signer) appendMAC(b []byte, id task.ID, f task.Fence) []byte {
	x, _ := s.states.Get().(*signing)
	x.message = append(x.message[:0], purpose...)
	x.message = strconv.AppendInt(x.message, int64(id), 10)
	x.message = append(x.message, '.')
	x.message = strconv.AppendInt(x.message, int64(f), 10)
	x.mac.Reset()
	_, _ = x.mac.Write(x.message) // a hash never fails
	x.sum = x.mac.Sum(x.sum[:0])
	b = base64.RawURLEncoding.AppendEncode(b, x.sum[:macBytes])
	s.states.Put(x)
	return b
}
