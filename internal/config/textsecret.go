package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// secretParts make a name that of a secret wherever they stand in it.
func secretParts() []string {
	return []string{
		"passw", "passphrase", "pwd", "secret", "token", "credential", "cookie", "signature", "apikey", "bearer", "authoriz",
	}
}

// secretWords do so as a word of their own: API_KEY, X-Sig, dbPass.
func secretWords() []string {
	return []string{"key", "keys", "pass", "sig", "hmac", "jwt", "otp", "psk", "salt", "creds", "cred", "auth", "private"}
}

// isSecretName reports whether headers, variables, options and parameters of that name hold secrets.
func isSecretName(name string) bool {
	lower := strings.ToLower(name)
	if strings.Contains(lower, "idempotency") || strings.Contains(lower, "public") {
		return false
	}
	if slices.ContainsFunc(secretParts(), func(p string) bool { return strings.Contains(lower, p) }) {
		return true
	}
	if strings.Contains(lower, "auth") && !strings.Contains(lower, "author") {
		return true
	}
	var spaced strings.Builder
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			spaced.WriteByte(' ')
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			spaced.WriteRune(unicode.ToLower(r))
		}
		before = r
	}
	return slices.ContainsFunc(strings.Fields(spaced.String()), func(w string) bool {
		return slices.Contains(secretWords(), w)
	})
}

// Secrets within a longer text. The last group is the secret; where there are two, the first is its name.
var (
	assignedSecret = regexp.MustCompile(`(?:^|[^\w.])([A-Za-z_][\w.-]*)\\?["']?[ \t]*[=:][ \t]*(?:\\?["'])?([^\s&;"',)}\\]+)`)
	headerSecret   = regexp.MustCompile(`(?:^|[^\w.])([A-Za-z][\w-]*):[ \t]+([^"'\n]+)`)
	bearerSecret   = regexp.MustCompile(`(?i)\bbearer[ \t]+([^\s"',;]+)`)
	basicSecret    = regexp.MustCompile(`(?i)\bbasic[ \t]+([a-z0-9+/=_-]{8,})`)
	curlUser       = regexp.MustCompile(`(?:^|\s)(?:-u|--user)[ =]?[^\s:/]+:([^\s"']+)`)
	webhookPath    = regexp.MustCompile(`(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)([^\s"'?]+)`)
	telegramPath   = regexp.MustCompile(`(api\.telegram\.org/bot)([^\s"'/?]+)`)
	knownToken     = regexp.MustCompile(`\b(gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|[sr]k_(?:live|test)_\w{8,}|` +
		`sk-[\w-]{20,}|xox[abprs]-[\w-]{8,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|whsec_[\w+/=]+)`)
	privateKey       = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----([\s\S]+)`)
	attachedPassword = regexp.MustCompile(`(?:^|\s)-p([^\s=-]\S*)`)
	notPassword      = regexp.MustCompile(`^(?:[0-9:./]+$|rint|ath|erm|rune|ort|ro|re|ipe|thread|ar|lug|ack|ub|$)`)
	urlInText        = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'<>`]+")
)

// span is a part of a text, in bytes.
type span struct{ from, to int }

// textSecrets finds the secrets in a text: passwords in URLs, values whose name says that they are secret, and what looks
// like a token. It is a best effort; docs/operations.md lists what is recognised.
func textSecrets(text string) []span {
	var found []span
	add := func(from, to int) {
		secret := text[from:to]
		shown := strings.HasPrefix(secret, "$") || strings.HasPrefix(text[from:], Redacted) // a variable of a shell
		if from < to && !shown {
			found = append(found, span{from, to})
		}
	}
	for _, m := range urlInText.FindAllStringIndex(text, -1) {
		if from, to := userSecret(text[m[0]:m[1]]); to > 0 {
			add(m[0]+from, m[0]+to)
		}
	}
	for _, re := range []*regexp.Regexp{assignedSecret, headerSecret} {
		for at := 0; at < len(text); { // one match may begin within another
			m := re.FindStringSubmatchIndex(text[at:])
			if m == nil {
				break
			}
			if isSecretName(text[at+m[2] : at+m[3]]) {
				add(at+m[4], at+m[5])
			}
			at += m[3]
		}
	}
	for _, re := range []*regexp.Regexp{
		bearerSecret, basicSecret, curlUser, webhookPath, telegramPath, knownToken, privateKey,
	} {
		for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
			add(m[len(m)-2], m[len(m)-1])
		}
	}
	for _, m := range attachedPassword.FindAllStringSubmatchIndex(text, -1) {
		if !notPassword.MatchString(text[m[2]:m[3]]) {
			add(m[2], m[3])
		}
	}
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	return merged(found)
}

// merged makes spans that overlap one.
func merged(sorted []span) []span {
	var out []span
	for _, s := range sorted {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// userSecret is where the password stands in a URL; to is 0 where there is none. A password may hold "@", "/", "?" and "#"
// that should have been escaped: it ends with the last "@" that can be its end. Without a password, what stands before
// the host of a web address is taken for one: a token.
func userSecret(text string) (from, to int) {
	scheme, rest, _ := strings.Cut(text, "://")
	start := len(scheme) + len("://")
	web := strings.HasPrefix(scheme, "http") || strings.HasPrefix(scheme, "ws")
	path := rest
	if i := strings.IndexAny(rest, "?#"); i >= 0 && (web && !strings.Contains(rest[:i], "@") || isQuery(rest[i+1:])) {
		path = rest[:i]
	}
	at := strings.LastIndexByte(path, '@')
	if at < 0 {
		return 0, 0
	}
	if authority, _, _ := strings.Cut(path, "/"); web && !strings.Contains(authority, "@") && sanePort(authority) {
		return 0, 0 // it stands in the path
	}
	switch colon := strings.IndexByte(path[:at], ':'); {
	case colon >= 0:
		return start + colon + 1, start + at
	case web:
		return start, start + at
	}
	return 0, 0
}

// isQuery reports whether a text that follows a question mark is name=value all through, so that "@" is part of a value.
func isQuery(text string) bool {
	for pair := range strings.SplitSeq(text, "&") {
		if name, _, ok := strings.Cut(pair, "="); strings.Contains(pair, "@") && (!ok || strings.Contains(name, "@")) {
			return false
		}
	}
	return true
}

// sanePort reports whether what follows the colon in host:port is a number.
func sanePort(authority string) bool {
	i := strings.LastIndexByte(authority, ':')
	return i < 0 || strings.HasSuffix(authority, "]") || strings.Trim(authority[i+1:], "0123456789") == ""
}

// RedactText hides the secrets that it recognises in a text, passwords in URLs first of all.
func RedactText(text string) string {
	var b strings.Builder
	last := 0
	for _, s := range textSecrets(text) {
		b.WriteString(text[last:s.from])
		b.WriteString(Redacted)
		last = s.to
	}
	return b.String() + text[last:]
}

// hidesNext reports whether an argument is an option whose value, a secret, is the argument after it.
func hidesNext(program, option, next string) bool {
	name, isOption := strings.CutPrefix(option, "-")
	if !isOption || strings.ContainsAny(option, "= ") || strings.HasPrefix(next, "-") {
		return false
	}
	for flags := range strings.FieldsSeq("sshpass:-p redis-cli:-a ldapsearch:-w ldapmodify:-w zip:-P unzip:-P") {
		if flags == programName(program)+":"+option {
			return true
		}
	}
	if option == "-u" || option == "--user" {
		return strings.Contains(next, ":") && strings.Trim(next, "0123456789:") != ""
	}
	lower := strings.ToLower(name)
	for _, end := range []string{"file", "path", "dir", "stdin", "env", "prompt", "cache"} {
		if strings.HasSuffix(lower, end) {
			return false
		}
	}
	return len(name) > 1 && isSecretName(name)
}
