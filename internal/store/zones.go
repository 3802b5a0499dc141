package store

import (
	_ "embed"
	"strings"
)

//go:embed zones.txt
var zones string

// Zones returns the names of the time zones that a schedule may have, sorted: those that Go embeds (time/tzdata).
func Zones() []string { return strings.Fields(zones) }

// ZoneRows returns them as rows of an INSERT.
func ZoneRows() string { return "('" + strings.Join(Zones(), "'),\n    ('") + "')" }
