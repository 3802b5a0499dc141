package model_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestModelConforms(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness { return storetest.NewOnModel() })
}
