package store

import "time"

// MaxReason bounds the reason for a change of a type, in bytes.
const MaxReason = 512

// TypePause is a type that an operator has paused: agents claim no rows of it until it is resumed. Times are the store's clock.
type TypePause struct {
	Type   string    `json:"type"`
	At     time.Time `json:"paused_at"`
	By     string    `json:"by,omitempty"`     // who has paused it, where that is known
	Reason string    `json:"reason,omitempty"` // what people are told
}
