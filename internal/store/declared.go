package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Block is a block of a configuration as it is shown: with its defaults, and without secrets.
type Block struct {
	Kind string `json:"kind"` // task, schedule or chunks
	Name string `json:"name"`
	// Fields are its attributes, and those of its blocks by their paths ("retry.limit"), as HCL.
	Fields map[string]string `json:"fields"`
}

// Text returns the fields as JSON, and the SHA-256 of that, in hexadecimal digits.
func (b *Block) Text() (text, hash string) {
	body, _ := json.Marshal(b.Fields) // of texts, in the order of their names
	sum := sha256.Sum256(body)
	return string(body), hex.EncodeToString(sum[:])
}

// DeclaredBlock is a block as it was loaded, and the sessions that are present and declare it. Times are the store's clock.
type DeclaredBlock struct {
	Block
	Hash     string         `json:"hash"`   // of the fields, as Text returns it
	Number   int64          `json:"number"` // rises with each block that was never loaded before
	FirstAt  time.Time      `json:"first_at"`
	FirstBy  string         `json:"first_by"` // name of the agent that loaded it first
	LastAt   time.Time      `json:"last_at"`
	LastBy   string         `json:"last_by"`
	Sessions []task.Session `json:"sessions"` // present ones that declare it, by number
}

// DeclarationsListed is the most that a list of blocks has.
const DeclarationsListed = 10_000
