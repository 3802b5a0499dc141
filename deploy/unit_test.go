package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exposure is the most that `systemd-analyze security` may say of a unit: 0 is best, 10 worst.
const exposure = 4.0

const (
	agentUnit   = "leasehold.service"
	migrateUnit = "leasehold-migrate.service"
	override    = "leasehold.service.d/commands.conf"
)

// settings reads the settings of a unit; of one that stands there more often the last.
func settings(t *testing.T, file string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(text(t, file)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			all[name] = value
		}
	}
	return all
}

func TestUnit(t *testing.T) {
	s := settings(t, agentUnit)
	require.Equal(t, "notify", s["Type"])
	require.NotEmpty(t, s["WatchdogSec"])
	require.Equal(t, "mixed", s["KillMode"], "draining is the agent's")
	require.Contains(t, s["ExecStart"], " --migrate ")
	require.NotContains(t, s, "UMask", "tasks inherit it")
	require.Equal(t, "yes", s["Delegate"], "attempts have cgroups")
	for _, name := range []string{"ProtectControlGroups", "RestrictNamespaces"} {
		require.NotContains(t, s, name, "no cgroups could be made, or nothing started in them")
	}
	require.NotContains(t, s, "MemoryDenyWriteExecute", "what compiles at run time would not run")
}

func TestMigrateUnit(t *testing.T) {
	s := settings(t, migrateUnit)
	require.Equal(t, "oneshot", s["Type"])
	m := regexp.MustCompile(`(?m)^#   GRANTS=(.*)$`).FindStringSubmatch(text(t, migrateUnit))
	require.NotNil(t, m)
	require.Contains(t, text(t, "../docs/deployment.md"), "\nGRANTS="+m[1]+"\n")
	_, command, ok := strings.Cut(strings.Replace(s["ExecStart"], "$GRANTS", m[1], 1), "/leasehold ")
	require.True(t, ok)
	migrates(t, strings.Fields(command), "leasehold_owner", map[string]string{"--grant-agent": "leasehold_agent", "--grant-application": "app"})
	require.Equal(t, agentUnit, s["Before"])
	require.Equal(t, agentUnit, s["RequiredBy"])
	require.NotEqual(t, settings(t, agentUnit)["EnvironmentFile"], s["EnvironmentFile"], "agents do not see the owner's password")
}

// What changes the user of a command needs these, in a unit that is otherwise as it was.
func TestOverrideForCommands(t *testing.T) {
	s := settings(t, override)
	require.Equal(t, "root", s["User"])
	require.Equal(t, "no", s["DynamicUser"])
	require.Equal(t, "continue", s["OOMPolicy"], "a command that uses up the memory does not stop the agent")
	listed := strings.Join(strings.Fields(strings.ReplaceAll(text(t, agentUnit), "#", "")), " ")
	require.Contains(t, listed, "CapabilityBoundingSet="+s["CapabilityBoundingSet"], "as the unit lists them")
}

// systemd's own tools read the units, where they are.
func TestUnitsAreReadBySystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "systemd-analyze is missing: apt-get install systemd")
		t.Log("systemd-analyze is not here: the units are not checked by it")
		return
	}
	for name, files := range map[string][]string{
		"alone": {agentUnit}, "with a migration": {agentUnit, migrateUnit}, "with commands": {agentUnit, override},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, file := range files {
				at := filepath.Join(root, "etc/systemd/system", file)
				require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
				unit := strings.ReplaceAll(text(t, file), "/usr/local/bin/leasehold", "/bin/true")
				require.NoError(t, os.WriteFile(at, []byte(unit), 0o600))
			}
			for _, unit := range files {
				if filepath.Ext(unit) != ".service" {
					continue
				}
				check(t, analyze, root, unit)
			}
		})
	}
}

// check has systemd read a unit and its overrides within a root, and rate it.
func check(t *testing.T, analyze, root, unit string) {
	t.Helper()
	verify := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join(root, "etc/systemd/system", unit))
	verify.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+filepath.Join(root, "etc/systemd/system")+":")
	out, err := verify.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "leasehold", "it warns")

	out, err = exec.CommandContext(t.Context(), analyze, "security", "--no-pager", "--root="+root, "--offline=yes", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	m := regexp.MustCompile(`Overall exposure level for ` + regexp.QuoteMeta(unit) + `: ([0-9.]+)`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	level, err := strconv.ParseFloat(string(m[1]), 64)
	require.NoError(t, err)
	require.LessOrEqual(t, level, exposure, "%s", out)
}
