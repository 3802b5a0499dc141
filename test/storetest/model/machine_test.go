package model_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/storetest"
)

// The machine finds the model to be like itself: it asks nothing that has two answers.
func TestMachineOnItself(t *testing.T) {
	storetest.RunMachine(t, func(testing.TB) storetest.Harness { return storetest.NewOnModel() })
}
