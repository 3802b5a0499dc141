package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// evil is what a row holds in these tests: a template that it fills in alone.
const evil = `"${task.data.x}"`

// TestARowIsNoProgramText declares what would have a row's data run.
func TestARowIsNoProgramText(t *testing.T) {
	for _, argv := range []string{
		`"sh", "-c", "resize ${task.data.x}"`,
		`"sh", "-c", task.data.x`,
		`"/bin/bash", "-xc", "echo ${task.data.x}"`,
		`"bash", "-x", "-c", ` + evil,
		`"bash", "-o", "pipefail", "-c", ` + evil,
		`"bash", "-euo", "pipefail", "-c", ` + evil,
		`"bash", "-co", "pipefail", ` + evil,
		`"bash", "-c", "-x", ` + evil,
		`"bash", "-c", "--", ` + evil,
		`"bash", "+x", "-c", ` + evil,
		`"bash", "--norc", "-c", ` + evil,
		`"bash", "--rcfile", ` + evil,
		`"bash", "-${task.data.x}", "id"`,
		`"env", "sh", "-lc", ` + evil,
		`"env", "-i", "-u", "A", "B=c", "sh", "-c", ` + evil,
		`"env", "-S", "sh -c ${task.data.x}"`,
		`"env", "--split-string=${task.data.x}"`,
		`"env", "PATH=${task.data.x}", "resize"`,
		`"env", "-", "LD_PRELOAD=${task.data.x}", "resize"`,
		`"env", task.data.x, "resize"`,
		`"env", task.data.x`,
		`"nice", "-n", "5", task.data.x`,
		`"nice", "-10", "sh", "-c", ` + evil,
		`"timeout", "5", "sh", "-c", ` + evil,
		`"timeout", "-s", "KILL", "--kill-after=3", "5", "sh", "-c", ` + evil,
		`"timeout", "5", task.data.x`,
		`"nohup", "nice", "timeout", "5", "env", "A=b", "sh", "-c", ` + evil,
		`"busybox", "sh", "-c", ` + evil,
		`"busybox", task.data.x`,
		`"su", "-c", ` + evil,
		`"su", "app", "-c", ` + evil,
		`"su", "-", "app", "--command=${task.data.x}"`,
		`"su", "app", "--command", ` + evil,
		`"sudo", "-u", "app", "bash", "-lc", ` + evil,
		`"sudo", "-u", "app", task.data.x`,
		`"runuser", "-u", "app", "--", "sh", "-c", ` + evil,
		`"flock", "/run/lock", "-c", ` + evil,
		`"flock", "-n", "/run/lock", "sh", "-c", ` + evil,
		`"flock", "/run/lock", task.data.x`,
		`"docker", "exec", "app", "sh", "-c", ` + evil,
		`"find", ".", "-exec", "bash", "-c", "rm ${task.data.x}", "{}", ";"`,
		`"xargs", "-n", "1", "sh", "-c", ` + evil,
		`"script", "-qc", ` + evil,
		`"watch", "-n", "5", "ls ${task.data.x}"`,
		`"ssh", "host", "ls ${task.data.x}"`,
		`"ssh", "-i", "key", "host", "ls", ` + evil,
		`"ssh", "-o", "ProxyCommand=${task.data.x}", "host"`,
		`"python3", "-c", ` + evil,
		`"python3.12", "-Ic", ` + evil,
		`"python", "-cprint(${task.data.x})"`,
		`"python3", "-m", task.data.x`,
		`"python3", task.data.x`,
		`"python3", "-${task.data.x}"`,
		`"perl", "-e", ` + evil,
		`"perl", "-i.bak", "-pe", "s/x/${task.data.x}/"`,
		`"perl", "-lane", "print ${task.data.x}"`,
		`"perl", "-Mstrict", "-e", ` + evil,
		`"ruby", "-ne", ` + evil,
		`"node", "--eval", ` + evil,
		`"node", "--eval=${task.data.x}"`,
		`"node", "-p", ` + evil,
		`"node", "--require=${task.data.x}", "app.js"`,
		`"deno", "eval", ` + evil,
		`"deno", "run", ` + evil,
		`"php", "-r", ` + evil,
		`"php8.3", "-d", "auto_prepend_file=${task.data.x}", "app.php"`,
		`"php", "-f", task.data.x`,
		`"lua5.4", "-e", ` + evil,
		`"Rscript", "-e", ` + evil,
		`"awk", "{ print ${task.data.x} }", "file"`,
		`"gawk", "-F", ":", "--source", ` + evil,
		`"sed", "s/x/${task.data.x}/e", "file"`,
		`"sed", "-n", "-e", "s/x/${task.data.x}/p", "file"`,
		`"psql", "app", "-c", "SELECT '${task.data.x}'"`,
		`"psql", "-tAc", "SELECT '${task.data.x}'"`,
		`"mysql", "--execute=${task.data.x}", "app"`,
		`"sqlite3", "app.db", ".shell ${task.data.x}"`,
		`"pwsh", "-NoProfile", "-Command", ` + evil,
		`"erl", "-noshell", "-eval", ` + evil,
		`"fish", "--command=${task.data.x}"`,
	} {
		_, err := load(t, "task \"a\" {\n  command {\n    argv = ["+argv+"]\n  }\n}\n", nil)
		require.Error(t, err, argv)
		require.Contains(t, err.Error(), "leasehold.hcl:3: Invalid argv", argv)
		require.Contains(t, err.Error(), `\"$1\"`, "the safe way: %s", argv)
	}
}

// TestARowIsAnArgument declares what is well.
func TestARowIsAnArgument(t *testing.T) {
	for _, argv := range []string{
		`"sh", "-c", "resize \"$1\"", "sh", "${task.data.x}"`,
		`"bash", "-euo", "pipefail", "-c", "resize \"$1\"", "resize", task.data.x`,
		`"sh", "resize.sh", "-c", "${task.data.x}"`,
		`"sh", "-s", task.data.x`,
		`"env", "NAME=${task.data.x}", "resize", task.data.x`,
		`"timeout", "${task.data.x}", "resize", task.data.x`,
		`"nice", "-n", "5", "ffmpeg", "-i", task.data.x, "-c", "copy"`,
		`"flock", "-n", "/run/lock", "backup", "-c", task.data.x`,
		`"python3", "resize.py", "-c", "${task.data.x}"`,
		`"python3", "-m", "resize", "--command=${task.data.x}"`,
		`"python3", "-c", "import sys; print(sys.argv[1])", task.data.x`,
		`"perl", "-e", "print $ARGV[0]", task.data.x`,
		`"node", "--max-old-space-size=100", "app.js", "--eval=${task.data.x}"`,
		`"php", "artisan", "orders:ship", task.data.x`,
		`"php", "-r", "echo $argv[1];", task.data.x`,
		`"awk", "-v", "x=${task.data.x}", "{ print x }", task.data.x`,
		`"awk", "-f", "sum.awk", task.data.x`,
		`"sed", "-i", "-e", "s/a/b/", task.data.x`,
		`"psql", "-v", "id=${task.id}", "-f", "ship.sql"`,
		`"ssh", "-i", "key", "host-${task.data.x}", "uptime"`,
		`"sudo", "-u", "app", "resize", task.data.x`,
		`"grep", "-e", task.data.x, "file"`,
		`"curl", "-c", task.data.x, "-e", task.data.x`,
		`"resize", task.data.x, "sh", task.data.x`,
	} {
		_, err := load(t, "task \"a\" {\n  command {\n    argv = ["+argv+"]\n  }\n}\n", nil)
		require.NoError(t, err, "%s\n%s", argv, report(err))
	}
}

func TestARowIsNoDangerousVariable(t *testing.T) {
	config := func(name, value string) error {
		_, err := load(t, fmt.Sprintf("task \"a\" {\n  command {\n    argv = [\"resize\"]\n    env = { %s = %s }\n  }\n}\n", name, value), nil)
		return err
	}
	for name := range strings.FieldsSeq(`PATH LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV IFS PYTHONPATH
		PYTHONSTARTUP PYTHONHOME NODE_OPTIONS PERL5LIB PERL5OPT RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS
		PHPRC PHP_INI_SCAN_DIR GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT BASH_FUNC_x PAGER EDITOR PS4 npm_config_script_shell`) {
		err := config(name, `"/x/${task.data.x}"`)
		require.ErrorContains(t, err, "leasehold.hcl:4: Invalid env; env: "+name+" decides which programs run or load")
		require.ErrorContains(t, err, `\"$1\"`)
		require.NoError(t, config(name, `"/usr/bin"`), "fixed text is the declaration's own")
	}
	for name := range strings.FieldsSeq("FILE MODE NODE_ENV PATHS MY_PATH LANG GITHUB_REF ENVIRONMENT JAVA") {
		require.NoError(t, config(name, evil))
	}
}
