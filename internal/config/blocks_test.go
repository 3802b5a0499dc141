package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlocks(t *testing.T) {
	cfg := mustLoad(t, `
agent {
  token = "geheim"
}

task "mail/a:b.c-d" {
  retry {
    limit = 7
  }
  webhook {
    url    = "http://127.0.0.1/${task.id}"
    secret = "whsec_Z2VoZWltZ2VoZWltZ2VoZWltZ2VoZWlt"
  }
}

task "long" {
  command {
    argv = ["`+strings.Repeat("é", 5000)+`"]
  }
}

schedule "s" {
  task  = "long"
  every = "1d"
}
`, nil)
	blocks := cfg.Blocks()
	require.Len(t, blocks, 3)
	require.Equal(t, [][2]string{{"task", "mail/a:b.c-d"}, {"task", "long"}, {"schedule", "s"}},
		[][2]string{{blocks[0].Kind, blocks[0].Name}, {blocks[1].Kind, blocks[1].Name}, {blocks[2].Kind, blocks[2].Name}})
	a := blocks[0].Fields
	require.Equal(t, "7", a["retry.limit"])
	require.Equal(t, `"1s"`, a["retry.min"], "defaults are filled in")
	require.Equal(t, `"http://127.0.0.1/${task.id}"`, a["webhook.url"])
	require.NotContains(t, a["webhook.secret"], "Z2Vo")
	argv := blocks[1].Fields["command.argv"]
	require.Less(t, len(argv), 5<<10)
	require.Regexp(t, `^\["é+… \(10004 bytes, sha256 [0-9a-f]{12}\)$`, argv)
	require.Equal(t, `"1d"`, blocks[2].Fields["every"])
}

// TestAgentsOfDifferentSizesDeclareTheSame, and observers with them.
func TestAgentsOfDifferentSizesDeclareTheSame(t *testing.T) {
	const tasks = `
task "a" {
  command {
    argv = ["work"]
    dir  = "/tmp"
    worker {}
  }
}

task "b" {
  workers = 3
  webhook {
    url = "http://127.0.0.1/"
  }
}
`
	of := func(agent string) []Block { return mustLoad(t, agent+tasks, nil).Blocks() }
	want := of("")
	require.NotContains(t, want[0].Fields, "workers")
	require.NotContains(t, want[0].Fields, "command.worker.processes")
	require.Equal(t, "3", want[1].Fields["workers"])
	for _, workers := range []string{"0", "1", "8"} {
		require.Equal(t, want, of("agent {\n  workers = "+workers+"\n}\n"), workers)
	}
}
