package model_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/storetest"
)

// wrong makes a sound model a wrong one.
type wrong = func(*storetest.OnModel) storetest.Harness

// A sabotage is a model with one thing wrong, and the check that must find it.
type sabotage struct {
	name  string
	wrong wrong
	check string
}

// Each part of the suite is shown to fail for what it is there to find.
func TestSuiteFindsSabotage(t *testing.T) {
	for _, s := range slices.Concat(claimSabotages(), readSabotages(), settleSabotages(), leaseSabotages(),
		otherSabotages(), hostileSabotages(), liveSabotages(), operateSabotages(), batchSabotages(), revivalSabotages(),
		namedSabotages(), followSabotages(), scheduleSabotages(), declaredSabotages(), chunkSabotages(), splitSabotages(), operatedSabotages(),
		lockSabotages(), sequenceSabotages(), afterSabotages(), tenantSabotages(), onFailedSabotages(), orphanSabotages(),
		spillSabotages(), activitySabotages()) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			sound := storetest.NewOnModel()
			require.Empty(t, storetest.Failing(t, s.check, sound), "the sound model must pass")
			m := storetest.NewOnModel()
			m.Self = s.wrong(m)
			require.NotEmpty(t, storetest.Failing(t, s.check, m.Self), "%s passes", s.check)
		})
	}
}
