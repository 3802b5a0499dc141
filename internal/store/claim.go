package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Claim asks for rows.
type Claim struct {
	Session task.Session
	Number  int64  // rises with each claim of the session
	Region  string // rows of this region are claimed, and rows of none; "": rows of none only
	Wants   []Want // each (Type, Phase) occurs once
	// Bytes bounds the documents of one claim: no further row once those before have so many bytes, as far as the store knows
	// their length without reading them. The bound is for runs and for rollbacks separately. 0: no bound.
	Bytes int64
	// Cut, unless it is nil, is set where Bytes kept rows from being taken, or locks that others hold: wants that came back short
	// may have more.
	Cut *bool
	// Limited, unless it is nil, gets an entry for each wanted row type that has a limit. Where a claim took all the room of a limit,
	// wants that came back short may have more.
	Limited map[string]Room
	// Pass, unless it is nil, has the claim pass on locks and turns first, as Promote does.
	Pass *Pass
	// Leaves are row types of which an exchange leaves a place to a session that wants one: that gets to know by PlaceNews, if the store
	// can tell it.
	Leaves []string
	// Left, unless it is nil, is set where rows were left because another agent is passing their locks on: they may be claimed in a
	// moment.
	Left *bool
}

// Pass is what a claim passes on.
type Pass struct {
	Most     int      // how many notes of each kind at most
	Only     bool     // if nothing is promoted, nothing is claimed
	Promoted Promoted // is set by the claim. Its rows may have been claimed by it
}

// Want is how many rows of one row type and phase are wanted, and how they are to be held.
type Want struct {
	Type     string
	Phase    task.Phase // task.Run or task.Rollback
	N        int        // > 0
	Window   time.Duration
	Policy   task.PolicyHash
	Deadline time.Duration // from due to done; set on a row at its first claim; 0: none
	// Starved: the session runs nothing of the type. If a limit keeps it from that, those who exchange (Room.Wanted) get to know.
	Starved bool
	// Weights are how many rows in a row a tenant may take in its turn, 1 where it is not named. nil: the type declares nothing of tenants.
	Weights map[string]int
	// Freed are tenants of which attempts of the type have ended here since the last claim: where these have bounds (TenantLimit) they may have
	// room again. It is a hint: a store finds them without it, later.
	Freed []string
}
