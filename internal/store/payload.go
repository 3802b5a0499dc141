package store

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds on a payload, and on a rollback payload, in bytes: as PostgreSQL stores it as jsonb, which is about as long as its
// text; on SQLite of its text. The store refuses a row beyond the bound when it is inserted (MaxPayload of a Migrator);
// no agent takes one beyond MaxMaxPayload, however it came there.
const (
	MinMaxPayload     = 128 << 10
	DefaultMaxPayload = 1 << 20
	MaxMaxPayload     = 64 << 20
)

// CheckMaxPayload refuses what cannot be a store's bound on payloads, with the remedy.
func CheckMaxPayload(bytes int64) error {
	if bytes < MinMaxPayload || bytes > MaxMaxPayload {
		return fmt.Errorf("a bound on payloads of %s: use %s to %s", Size(bytes), Size(MinMaxPayload), Size(MaxMaxPayload))
	}
	return nil
}

// Size is a human-readable number of bytes: in MiB or KiB where it is a whole number of them.
func Size(bytes int64) string {
	switch {
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// CheckPayload refuses, as *InputError, what cannot be the payload of a task; nil is none.
func CheckPayload(payload json.RawMessage) error {
	if payload == nil {
		return nil
	}
	return (&EnqueueRequest{Type: "-", Payload: payload}).Check()
}

// Unfit says why no agent takes a row: a document of it, as "payload", is that many bytes long.
func Unfit(document string, bytes int64) string {
	return fmt.Sprintf("its %s is %d bytes, and agents take %s at most: keep what is large elsewhere, and where it is in the payload",
		document, bytes, Size(MaxMaxPayload))
}

// Bounds for numbers that an application wrote and that no row reaches in use, so that adding one to them never overflows. A row whose
// fence is above MaxFence is unfit: its fence could not rise for ever.
const (
	MaxFence   = 1<<62 - 1<<20
	MaxAttempt = 1_000_000
)

// UnfitFence says why no agent takes a row whose fence is above MaxFence.
func UnfitFence() string {
	return "its fence is at the end of its range, so two attempts could have the same: insert the task anew, without a fence"
}

// TooLarge turns a refusal by a store's bound on payloads, in the few words that a constraint has, into one with the
// remedies; any other text stays.
func TooLarge(refusal string) string {
	bound, _, found := strings.Cut(refusal, " at most: ")
	if !found || !strings.Contains(refusal, "max-payload") {
		return refusal
	}
	return bound + " at most: keep what is large elsewhere, and where it is in the payload; or raise the bound, as " +
		"`leasehold migrate --max-payload 8MiB` does"
}
