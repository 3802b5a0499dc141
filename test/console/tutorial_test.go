package console_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/console"
	"github.com/leasehold/leasehold/test/harness"
)

func TestTutorial(t *testing.T) {
	console.Play(t, "../../docs/tutorial.md", console.Setting{Binary: harness.Binary(t)})
}
