package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/storetest"
)

func TestReleasedMigrationsDoNotChange(t *testing.T) {
	storetest.CheckReleased(t, storetest.Released{Newest: version(), Script: func() (string, error) { return empty(t).Migrator().SQL(0) }})
}

// Each file that a release has made gets the same schema as a new one, by the migrations since.
func TestReleasedFilesGetTheSchema(t *testing.T) {
	t.Parallel()
	fresh := normal(shape(t, newHarness(t).app))
	for name, script := range storetest.ReleasedScripts(t) {
		h := empty(t)
		require.NoError(t, h.exec(t, script), name)
		_, err := h.Migrator().Up(t.Context())
		require.NoError(t, err, name)
		require.NoError(t, h.Ping(t.Context()), name)
		storetest.RequireMigrated(t, name, fresh, normal(shape(t, h.app)))
	}
}

func normal(definitions []string) []string {
	for i := range definitions {
		definitions[i] = storetest.Normal(definitions[i])
	}
	return definitions
}
