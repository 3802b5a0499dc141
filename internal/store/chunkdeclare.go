package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// ChunkSource is what a plan cuts, as it is shown: without secrets.
type ChunkSource struct {
	URL               string        `json:"url,omitempty"` // "": the store
	Where             string        `json:"where,omitempty"`
	OldestTransaction time.Duration `json:"oldest_transaction_ns,omitempty"`
	When              string        `json:"when,omitempty"`
}

// ChunkDeclaration is a plan as a configuration declares it. One that was never loaded before is newer than all others.
type ChunkDeclaration struct {
	Spec   ChunkSpec
	Source ChunkSource
}

// Text returns all that the declaration says but its name, as JSON, and the SHA-256 of that, in hexadecimal digits.
func (d *ChunkDeclaration) Text() (text, hash string) {
	s := &d.Spec
	body, _ := json.Marshal(struct { // of texts and numbers
		Task      string      `json:"task"`
		Table     string      `json:"table"`
		Key       string      `json:"key"`
		SizeStart int         `json:"size_start"`
		SizeMin   int         `json:"size_min"`
		SizeMax   int         `json:"size_max"`
		Target    int64       `json:"target_us"`
		Ahead     int         `json:"ahead"`
		Follow    int64       `json:"follow_us"`
		Source    ChunkSource `json:"source"`
	}{
		s.Task, s.Table, s.Key, s.Size.Start, s.Size.Min, s.Size.Max, s.Size.Target.Microseconds(), s.Ahead, s.Follow.Microseconds(),
		d.Source,
	})
	sum := sha256.Sum256(body)
	return string(body), hex.EncodeToString(sum[:])
}

// DeclaredChunks is what became of a session's declarations.
type DeclaredChunks struct {
	Known bool // else the session is not known, and nothing was noted
	// InForce names the plans that are as the session declares them. Of the others a present session has a newer declaration, or
	// they are refused.
	InForce []string
	// Refused names the plans that exist with another task type, table or key, which a plan keeps for as long as it exists.
	Refused []string
}
