package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchemaAdmits(t *testing.T) {
	const (
		migrate = "migrate up"
		upgrade = "use a newer leasehold"
	)
	for _, c := range []struct {
		what    string
		schema  Schema
		binary  int
		remedy  string // "": admitted
		missing int    // steps to apply; -1: an error
	}{
		{"no schema", Schema{}, 7, migrate, 7},
		{"the binary's own", Schema{Version: 7, Oldest: 7}, 7, "", 0},
		{"the binary's own, older ones admitted", Schema{Version: 7, Oldest: 5}, 7, "", 0},
		{"one step behind", Schema{Version: 6, Oldest: 6}, 7, migrate, 1},
		{"two steps behind, whatever it admits", Schema{Version: 5, Oldest: 1}, 7, migrate, 2},
		{"one additive step ahead", Schema{Version: 8, Oldest: 7}, 7, "", 0},
		{"many additive steps ahead", Schema{Version: 12, Oldest: 3}, 7, "", 0},
		{"the oldest that is admitted", Schema{Version: 8, Oldest: 6}, 6, "", 0},
		{"one older than that", Schema{Version: 8, Oldest: 6}, 5, upgrade, -1},
		{"ahead, and not additive", Schema{Version: 8, Oldest: 8}, 7, upgrade, -1},
		{"ahead, of unknown range", Schema{Version: 8}, 7, upgrade, -1},
		{"the binary's own, of unknown range", Schema{Version: 7}, 7, "", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			err := c.schema.Admits(c.binary)
			steps, missingErr := c.schema.Missing(c.binary)
			if c.missing < 0 {
				require.Equal(t, err, missingErr)
			} else {
				require.NoError(t, missingErr)
				require.Equal(t, c.missing, steps)
			}
			if c.remedy == "" {
				require.NoError(t, err)
				return
			}
			var refused *SchemaError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.schema.Version, refused.Have)
			require.Equal(t, refused.Want, c.binary)
			require.ErrorContains(t, err, c.remedy)
			wrapped := fmt.Errorf("ping: %w", err)
			require.Equal(t, c.remedy == migrate, IsOutdated(wrapped))
			require.Equal(t, c.remedy == upgrade, IsTooNew(wrapped))
			require.True(t, NeedsOperator(wrapped))
		})
	}
}

// A binary is admitted by the schema that it makes, and by every later one up to the first that raises Oldest beyond it.
func TestSchemaRangeIsContiguous(t *testing.T) {
	const most = 6
	for version := 1; version <= most; version++ {
		for oldest := 1; oldest <= version; oldest++ {
			s := Schema{Version: version, Oldest: oldest}
			for binary := 1; binary <= most+1; binary++ {
				require.Equal(t, oldest <= binary && binary <= version, s.Admits(binary) == nil, "%+v, binary %d", s, binary)
			}
		}
	}
}

func TestSchemaErrorText(t *testing.T) {
	require.EqualError(t, Schema{}.Admits(3),
		"the store has no Leasehold schema: run `leasehold migrate up` (or `leasehold run --migrate`)")
	require.EqualError(t, Schema{Version: 2, Oldest: 2}.Admits(3),
		"the store's schema is version 2 and this binary needs 3: run `leasehold migrate up`")
	const newer = "the store's schema is version 9, for binaries that know version 8 or later, and this one knows only 7: " +
		"use a newer leasehold, or `leasehold migrate down` with the newer one"
	require.EqualError(t, Schema{Version: 9, Oldest: 8}.Admits(7), newer)
	require.ErrorContains(t, &SchemaError{Have: 9, Want: 7}, "for binaries that know version 9 or later", "of unknown range")
}

// What changes the schema needs every step, whatever the range.
func TestSchemaKnownTo(t *testing.T) {
	for _, s := range []Schema{{}, {Version: 6, Oldest: 6}, {Version: 7, Oldest: 3}} {
		require.NoError(t, s.KnownTo(7), "%+v", s)
	}
	admitted := Schema{Version: 8, Oldest: 3}.KnownTo(7)
	require.EqualError(t, admitted,
		"the store's schema is version 8 and this binary knows only 7, which may work on it, and not change it: use a newer leasehold")
	require.False(t, NeedsOperator(admitted), "the agent may go on")
	refused := Schema{Version: 8, Oldest: 8}
	require.Equal(t, refused.Admits(7), refused.KnownTo(7))
}

func TestDeclaredOldest(t *testing.T) {
	for _, c := range []struct {
		text            string
		version, before int
		want            int // 0: an error
	}{
		{"-- oldest: 7\nALTER TABLE x ADD y int;", 9, 7, 7},
		{"-- oldest: 8", 9, 7, 8},
		{"-- oldest: 9 \r\n", 9, 7, 9},
		{"-- oldest: 6\n", 9, 7, 0},  // it fell
		{"-- oldest: 10\n", 9, 7, 0}, // the binary that applies the step would be too old
		{"-- oldest: \n7", 9, 7, 0},
		{"-- oldest: seven\n", 9, 7, 0},
		{"-- oldest: 7, of step b\n", 9, 7, 0},
		{"7\n", 9, 7, 0},
		{"\n-- oldest: 7", 9, 7, 0},
		{"ALTER TABLE x ADD y int;\n-- oldest: 7", 9, 7, 0},
		{"", 2, 1, 0},
	} {
		got, err := DeclaredOldest(c.text, c.version, c.before)
		require.Equal(t, c.want, got, c.text)
		require.Equal(t, c.want == 0, err != nil, c.text)
	}
}

func TestOtherErrorsNeedNoOperator(t *testing.T) {
	for _, err := range []error{nil, errors.New("connection refused")} {
		require.False(t, NeedsOperator(err))
		require.False(t, IsOutdated(err))
		require.False(t, IsTooNew(err))
	}
	require.True(t, NeedsOperator(fmt.Errorf("join: %w", &AccessError{})))
}
