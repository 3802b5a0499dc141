package config

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// A row never becomes program text. What follows knows the programs by which that happens most often, and finds row data
// where they take text to run. It is a best effort: a script of one's own may evaluate what it is given, and no list of
// programs ends.

// interpreter says how a program takes text to run, or a file of it.
type interpreter struct {
	code  string   // options of one letter whose value is run
	long  []string // long options whose value is run
	value string   // options of one letter with another value
	later bool     // as in shells: after the letter more options may come, and the first operand is run
	ends  string   // of the letters in code: those after whose value all words belong to the program
	plain bool     // its operands are data, and options may follow them
	text  int      // 1 + how many operands come before those that are run; 0: operands are not run
	whole bool     // all operands from there on are run, not only the first
	next  []string // subcommands
}

func interpreters() map[string]interpreter {
	shell := interpreter{code: "c", long: []string{"command", "init-command", "rcfile", "init-file"}, value: "oO", later: true}
	perl := interpreter{code: "eEmM", value: "I"}
	sql := interpreter{code: "e", long: []string{"execute", "init-command"}, plain: true}
	awk := interpreter{code: "e", long: []string{"source"}, value: "FvfE", text: 1}
	js := interpreter{
		code: "epr", long: []string{"eval", "print", "require", "import", "loader", "experimental-loader"}, value: "C",
		next: []string{"run", "eval", "x", "exec"},
	}
	user := interpreter{code: "c", long: []string{"command", "session-command"}, value: "gGsw", plain: true}
	all := map[string]interpreter{
		"fish":       {code: "cC", long: []string{"command", "init-command"}, value: "dfo"},
		"pwsh":       {code: "", long: []string{"command", "encodedcommand"}, plain: true},
		"python":     {code: "cm", value: "WX", ends: "cm"},
		"perl":       perl,
		"ruby":       {code: "er", long: []string{"require"}, value: "CEIx"},
		"php":        {code: "rBREdzf", long: []string{"run", "process-begin", "process-code", "process-end", "define"}, value: "cFtS"},
		"lua":        {code: "el"},
		"rscript":    {code: "e"},
		"r":          {code: "e"},
		"julia":      {code: "eE", long: []string{"eval", "print", "load"}, value: "LpCJH"},
		"elixir":     {code: "er", long: []string{"eval", "require", "rpc-eval"}},
		"erl":        {code: "", long: []string{"eval"}, plain: true},
		"groovy":     {code: "e"},
		"osascript":  {code: "e", value: "ls"},
		"tclsh":      {},
		"sed":        {code: "e", long: []string{"expression"}, value: "fl", text: 1},
		"psql":       {code: "c", long: []string{"command"}, plain: true},
		"sqlite3":    {long: []string{"cmd"}, text: 2, whole: true},
		"script":     {code: "c", long: []string{"command"}, plain: true},
		"watch":      {value: "n", text: 1, whole: true},
		"ssh":        {code: "o", value: "BbcDEeFIiJLlmOpQRSWw", text: 2, whole: true},
		"emacs":      {code: "", long: []string{"eval", "execute", "load"}, plain: true},
		"vim":        {code: "cS", long: []string{"cmd"}, plain: true},
		"gdb":        {long: []string{"ex", "eval-command", "init-eval-command"}, plain: true},
		"powershell": {long: []string{"command", "encodedcommand"}, plain: true},
	}
	for names, same := range map[string]interpreter{
		"sh bash dash ash zsh ksh mksh rbash yash csh tcsh": shell, "awk gawk mawk nawk": awk, "node nodejs deno bun": js,
		"mysql mariadb": sql, "su runuser": user, "pypy": {code: "cm", value: "WX", ends: "cm"}, "luajit": {code: "el"},
		"vi ex nvim": {code: "cS", long: []string{"cmd"}, plain: true}, "rsh autossh": {value: "bFiloMp", text: 2, whole: true},
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = same
		}
	}
	return all
}

// wrapper is a program that starts another, which stands after its options and its own operands.
type wrapper struct {
	value    string   // options of one letter with a value
	long     []string // long options with a value
	code     string   // options of one letter whose value is run
	operands int
	assigns  bool // NAME=value may stand before the program
}

func wrappers() map[string]wrapper {
	all := map[string]wrapper{
		"env":     {value: "uC", long: []string{"unset", "chdir"}, code: "S", assigns: true},
		"nice":    {value: "n", long: []string{"adjustment"}},
		"ionice":  {value: "cnp", long: []string{"class", "classdata"}},
		"timeout": {value: "ks", long: []string{"kill-after", "signal"}, operands: 1},
		"stdbuf":  {value: "ioe", long: []string{"input", "output", "error"}},
		"sudo":    {value: "CDghpRTUru", long: []string{"user", "group", "chdir", "host"}, assigns: true},
		"doas":    {value: "Cu"},
		"xargs": {value: "adEILnPs", long: []string{
			"arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars",
		}},
		"flock":  {value: "wE", long: []string{"wait", "timeout", "conflict-exit-code"}, code: "c", operands: 1},
		"time":   {value: "fo", long: []string{"format", "output"}},
		"strace": {value: "abeEIoOpPsSuUX"},
	}
	for name := range strings.FieldsSeq("nohup setsid busybox toybox exec command builtin tini dumb-init catchsegv unbuffer") {
		all[name] = wrapper{}
	}
	for name := range strings.FieldsSeq("chroot taskset gosu su-exec setuidgid softlimit") {
		all[name] = wrapper{operands: 1}
	}
	return all
}

var version = regexp.MustCompile(`[-.0-9]*(\.exe)?$`)

// programName is what a program is called: without its directory and its version. busybox, sqlite3 and su-exec keep what
// belongs to their names.
func programName(arg string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(arg, `\`, "/")))
	name = strings.TrimPrefix(name, "-") // as of a login shell
	if _, known := interpreters()[name]; known {
		return name
	}
	return version.ReplaceAllString(name, "")
}

// dangerous are the variables by which text is run, or code is loaded, in one program or another.
const dangerous = `
	PATH ENV BASH_ENV IFS CDPATH SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND ZDOTDIR FPATH SHELL HOME
	EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE LESS
	GCONV_PATH LOCPATH NLSPATH HOSTALIASES GLIBC_TUNABLES TERMINFO
	NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE
	JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS JAVA_HOME CLASSPATH MAVEN_OPTS GRADLE_OPTS ANT_OPTS
	CATALINA_OPTS SBT_OPTS JRUBY_OPTS
	PHPRC PHP_INI_SCAN_DIR PHP_VALUE PHP_ADMIN_VALUE
	LUA_INIT LUA_PATH LUA_CPATH R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER R_LIBS JULIA_LOAD_PATH
	TCLLIBPATH TCL_LIBRARY AWKPATH AWKLIBPATH GEM_HOME GEM_PATH BUNDLE_GEMFILE
	ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ERL_LIBS ELIXIR_ERL_OPTIONS
	GOFLAGS GOROOT GOPATH GOENV RUSTC_WRAPPER RUSTFLAGS CC CXX LIBRARY_PATH
	MAKEFLAGS MAKEFILES GNUMAKEFLAGS
	SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH CVS_RSH SVN_SSH HGRCPATH
	OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES CURL_HOME WGETRC VIMINIT EXINIT GTK_MODULES QT_PLUGIN_PATH
	PSQLRC PSQL_EDITOR PSQL_PAGER SYSTEMD_PAGER KUBECONFIG AWS_CONFIG_FILE DOCKER_CONFIG XDG_CONFIG_HOME
	BASH_LOADABLES_PATH`

// dangerousPrefixes begin the names of whole families of such variables.
func dangerousPrefixes() []string {
	return []string{
		"LD_", "DYLD_", "BASH_FUNC_", "PYTHON", "PERL5", "PERL_", "RUBY", "GIT_", "NPM_CONFIG_", "LUA_INIT_", "LUA_PATH_",
		"LUA_CPATH_", "PHP_INI_", "DOTNET_", "CORECLR_", "COR_", "COMPLUS_", "PIP_", "CARGO_", "MALLOC_",
	}
}

// choosesPrograms reports whether a variable may decide what a program runs or loads. Some read theirs in small letters.
func choosesPrograms(name string) bool {
	upper := strings.ToUpper(name)
	return slices.Contains(strings.Fields(dangerous), upper) ||
		slices.ContainsFunc(dangerousPrefixes(), func(p string) bool { return strings.HasPrefix(upper, p) })
}
