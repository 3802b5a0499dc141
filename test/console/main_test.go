package console_test

import (
	"os"
	"testing"

	"github.com/leasehold/leasehold/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
