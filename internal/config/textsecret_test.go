package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedactText(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://app:geheim@h/db":                     "postgres://app:(redacted)@h/db",
		"postgres://app:geh@eim@h/db":                    "postgres://app:(redacted)@h/db",
		"postgres://app:geh@eim/x@h/db":                  "postgres://app:(redacted)@h/db",
		"postgres://app:geh/eim@h/db":                    "postgres://app:(redacted)@h/db",
		"postgres://app:12/geheim@h/db":                  "postgres://app:(redacted)@h/db",
		"postgres://app:12?geheim@h/db":                  "postgres://app:(redacted)@h/db",
		"postgres://app:geh#eim@h/db":                    "postgres://app:(redacted)@h/db",
		"postgres://a@b:geheim@h/db":                     "postgres://a@b:(redacted)@h/db",
		"postgres://app@h:5432/db?application_name=a@b":  "postgres://app@h:5432/db?application_name=a@b",
		"postgres://h/db?user=a&password=geh%40eim&x=1":  "postgres://h/db?user=a&password=(redacted)&x=1",
		"redis://:geheim@h:6379/0":                       "redis://:(redacted)@h:6379/0",
		"https://geheim@github.com/a/b":                  "https://(redacted)@github.com/a/b",
		"http://h:80/@scope/x?mail=a@b.c":                "http://h:80/@scope/x?mail=a@b.c",
		"http://h/x?id=7&token=geheim&sig=geheim#y":      "http://h/x?id=7&token=(redacted)&sig=(redacted)",
		"http://h/x?api_key=geheim":                      "http://h/x?api_key=(redacted)",
		"--password=geheim":                              "--password=(redacted)",
		"-pgeheim":                                       "-p(redacted)",
		"mysql -uapp -pgeheim db":                        "mysql -uapp -p(redacted) db",
		"mkdir -p /x; find -print; ssh -p22 h":           "mkdir -p /x; find -print; ssh -p22 h",
		"curl -u app:geheim http://h":                    "curl -u app:(redacted) http://h",
		"Authorization: Bearer geheim":                   "Authorization: (redacted)",
		"X-Api-Key: geheim":                              "X-Api-Key: (redacted)",
		"Cookie: a=geheim; b=geheim":                     "Cookie: (redacted)",
		`curl -H "Authorization: Basic Z2VoZWlt" -v`:     `curl -H "Authorization: (redacted)" -v`,
		"host=h password=geheim dbname=x":                "host=h password=(redacted) dbname=x",
		`{"user": "a", "password": "geheim"}`:            `{"user": "a", "password": "(redacted)"}`,
		"mysql -p$PASS --password=$PASS":                 "mysql -p$PASS --password=$PASS",
		"the key to it; author=me; monkey=1; keyboard=2": "the key to it; author=me; monkey=1; keyboard=2",
		"https://hooks.slack.com/services/T0/B0/geheim":  "https://hooks.slack.com/services/(redacted)",
		"ghp_abcdefghijklmnopqrstuvwxyz":                 "(redacted)",
	} {
		require.Equal(t, want, RedactText(text), text)
		require.Equal(t, want, RedactText(want), "again")
	}
}

// TestFreeSecretsAreNotShown puts literal secrets where a name or their place marks them as secret.
func TestFreeSecretsAreNotShown(t *testing.T) {
	cfg := mustLoad(t, `
store {
  url = "postgres://app:geh@eim/geheim@127.0.0.1/app"
}

task "a" {
  webhook {
    url     = "http://127.0.0.1/?token=geheim&id=${task.id}&key=a${task.id}geheim&x=seen"
    headers = { Cookie = "a=geheim", X-Team-Key = "geheim", X-Hint = "Bearer geheim", X-Url = "https://geheim@h/", X-Sig = "geheim${env("NONE", "")}" }
  }
}

task "b" {
  command {
    argv = ["sync", "--password=geheim", "--token", "geheim", "-pgeheim", "-u", "app:geheim", "--api-key=geheim${task.id}geheim",
      "https://u:gehei@m/geheim@h/", "sh -c 'PGPASSWORD=geheim psql'", "X-Api-Key: geheim", "--file", "seen", "--secret", "geheim${task.id}"]
    env  = { DB_PASS = "geheim", STRIPE_KEY = "geheim", AUTH = "geheim", DSN = "host=h password=geheim", MODE = "seen", AWS_SECRET_ACCESS_KEY = "geheim", OTHER = "password=geheim ${env("NONE", "")}" }
  }
}
`, nil)
	text := effective(t, cfg)
	for _, part := range []string{"gehei", "eim"} {
		require.NotContains(t, text, part)
	}
	require.Equal(t, 3, strings.Count(text, "seen"), text)
	again(t, cfg, nil)
	_, err := load(t, text, nil)
	require.ErrorContains(t, err, "Redacted secret")
}

// TestMistakesShowNoSecrets reports mistakes in lines with secrets.
func TestMistakesShowNoSecrets(t *testing.T) {
	for _, text := range []string{
		"store {\n  url = \"postgres://app:geh@eim:x@h:port/db\"\n}\n",
		"store {\n  url = \"mysql://app:geh/eim@h/db\"\n}\n",
		"task \"a\" {\n  webhook {\n    url = \"http://u:geh@eim@h/?token=geheim\"\n  }\n}\n",
		"task \"a\" {\n  command {\n    argv = [\"\", \"--password=geheim\", \"--token\", \"geheim\", task.nothing]\n  }\n}\n",
	} {
		_, err := load(t, text, nil)
		require.Error(t, err)
		require.NotRegexp(t, "geh|eim", report(err)+err.Error())
	}
}
