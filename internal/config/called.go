package config

import "strings"

// What other tools call what is called otherwise here.

// synonyms gives each of the names in a remedy's key that remedy.
func synonyms(remedies map[string]string) map[string]string {
	all := make(map[string]string)
	for keys, remedy := range remedies {
		for name := range strings.FieldsSeq(keys) {
			all[name] = remedy
		}
	}
	return all
}

func calledInTask() map[string]string {
	return synonyms(map[string]string{
		"max_retries retries retry_limit max_retry":                             "how often a failed attempt is repeated is retry { limit = 2 }",
		"attempts max_attempts tries":                                           "attempts are retry { limit = 2 }, which counts those after the first",
		"backoff delay retry_delay retry_backoff":                               `the wait between attempts is backoff, min and max in a retry block`,
		"concurrency max_concurrency parallelism max_workers threads processes": "how many run at once on this agent is workers = 8",
		"schedule cron every interval crontab": `recurring tasks are a block of their own beside the task, schedule "name" { … }, ` +
			"which is not in this version; until then have cron run `leasehold enqueue`",
		"queue queues tube topic channel": "there are no queues: the label of the task block is the type that rows name; workers bounds each type, " +
			"and a row's priority says what goes first",
		"priority": "it is a column of the row: INSERT INTO leasehold.task (type, priority) …, or `leasehold enqueue --priority`",
		"cmd exec run script shell args argv program entrypoint":           `a subprocess is command { argv = ["program", "argument"] }`,
		"url uri endpoint http callback":                                   `an HTTP callback is webhook { url = "http://127.0.0.1:8080/tasks" }`,
		"headers method secret body":                                       "it belongs into the webhook block",
		"env environment dir cwd workdir user exit_codes stop_grace":       "it belongs into the command block",
		"ttl expires expiry max_age":                                       `how long after it is due a task may still be run is deadline = "1h"`,
		"time_limit max_runtime max_duration soft_time_limit hard_timeout": `how long an attempt may take is timeout = "20s"`,
		"lease visibility_timeout lock_timeout heartbeat_interval":         `how long a task may be silent is heartbeat = "10s"`,
		"on_error on_failure undo compensate":                              "what undoes a task that failed for good is a rollback block",
		"name type":                                                        `the name stands before the brace: task "name" { … }`,
		"unique unique_key dedupe key lock":                                "it is a column of the row, not of its type",
	})
}

func calledInRetry() map[string]string {
	return synonyms(map[string]string{
		"attempts max_attempts max_retries retries count tries":    "it is limit, which counts attempts after the first",
		"delay initial initial_delay base wait min_delay interval": "the shortest delay is min",
		"max_delay cap max_interval max_backoff":                   "the longest delay is max",
		"strategy policy type":                                     `it is backoff = "exponential" or "constant"`,
	})
}

func calledInCommand() map[string]string {
	return synonyms(map[string]string{
		"cmd command run exec args program script":        `program and arguments are argv = ["program", "argument"]`,
		"cwd workdir working_dir working_directory chdir": "the directory is dir",
		"environment envs vars variables":                 "variables are env = { NAME = \"value\" }",
		"timeout heartbeat retry workers":                 "it stands in the task block, beside command",
		"signal kill_signal":                              "it is stop_signal",
		"grace kill_after grace_period":                   "it is stop_grace",
		"uid username run_as":                             "it is user",
	})
}

func calledInWebhook() map[string]string {
	return synonyms(map[string]string{
		"uri endpoint address href":       "it is url",
		"header":                          "it is headers = { X-Name = \"value\" }",
		"timeout heartbeat retry workers": "it stands in the task block, beside webhook",
		"signing_secret hmac key":         "it is secret",
		"verb":                            "it is method",
		"payload":                         `it is body = "payload"`,
	})
}

func calledInAgent() map[string]string {
	return synonyms(map[string]string{
		"concurrency max_concurrency max_workers threads": "how many attempts run at once is workers",
		"bind port addr address http host":                `it is listen = "127.0.0.1:7070"`,
		"interval poll_interval":                          "it is poll",
		"grace shutdown_timeout drain_timeout":            "it is drain",
		"database database_url url":                       "the store is a block of its own: store { url = … }",
	})
}

func calledInStore() map[string]string {
	return synonyms(map[string]string{
		"dsn database database_url uri connection path file": `it is url = "postgres://user@host/database" or "sqlite:path"`,
		"pool_size max_connections":                          "it is connections",
		"ttl keep":                                           "it is retention",
	})
}

func calledInFile() map[string]string {
	return synonyms(map[string]string{
		"job worker queue":         `what is run is declared by type: task "name" { … }`,
		"cron crontab":             `recurring tasks are schedule "name" { … }, which is not in this version`,
		"command webhook retry":    `it stands in a task block: task "name" { … }`,
		"database postgres sqlite": "it is store { url = … }",
		"server settings config":   "it is agent { … }",
	})
}
