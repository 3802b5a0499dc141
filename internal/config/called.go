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
		"max_retries retries retry_limit max_retry": "set the number of retries with retry { limit = 2 }",
		"attempts max_attempts tries":               "use retry { limit = 2 }, which counts the attempts after the first",
		"backoff delay retry_delay retry_backoff":   `set the delay with backoff, min and max in a retry block`,
		"concurrency max_concurrency parallelism max_workers threads processes": "limit the concurrent attempts on this agent with workers = 8, and " +
			"on all agents together with limit = 20",
		"schedule cron every interval crontab": `recurring tasks are declared beside the task: schedule "name" { … }`,
		"queue queues tube topic channel": "there are no queues: rows name a type, the label of the task block; workers limits each type, " +
			"and a row's priority decides which row runs first",
		"priority": "use the column of the row: INSERT INTO leasehold.task (type, priority) …, or `leasehold enqueue --priority`",
		"cmd exec run script shell args argv program entrypoint":           `a subprocess is command { argv = ["program", "argument"] }`,
		"url uri endpoint http callback":                                   `an HTTP callback is webhook { url = "http://127.0.0.1:8080/tasks" }`,
		"headers method secret body":                                       "it belongs in the webhook block",
		"env environment dir cwd workdir user exit_codes stop_grace":       "it belongs in the command block",
		"ttl expires expiry max_age":                                       `set how long after its due time a task may still run with deadline = "1h"`,
		"time_limit max_runtime max_duration soft_time_limit hard_timeout": `limit the duration of an attempt with timeout = "20s"`,
		"lease visibility_timeout lock_timeout heartbeat_interval":         `set the longest time between two pings with heartbeat = "10s"`,
		"on_error on_failure undo compensate":                              "to revert a task that failed for good, use a rollback block",
		"name type":                                                        `write the name before the brace: task "name" { … }`,
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
		"timeout heartbeat retry workers":                 "it belongs in the task block, beside command",
		"signal kill_signal":                              "it is stop_signal",
		"grace kill_after grace_period":                   "it is stop_grace",
		"uid username run_as":                             "it is user",
	})
}

func calledInWebhook() map[string]string {
	return synonyms(map[string]string{
		"uri endpoint address href":       "it is url",
		"header":                          "it is headers = { X-Name = \"value\" }",
		"timeout heartbeat retry workers": "it belongs in the task block, beside webhook",
		"signing_secret hmac key":         "it is secret",
		"verb":                            "it is method",
		"payload":                         `it is body = "payload"`,
	})
}

func calledInAgent() map[string]string {
	return synonyms(map[string]string{
		"concurrency max_concurrency max_workers threads": "limit the concurrent attempts with workers",
		"bind port addr address http host":                `it is listen = "127.0.0.1:7070"`,
		"interval poll_interval":                          "it is poll",
		"grace shutdown_timeout drain_timeout":            "it is drain",
		"database database_url url":                       "use a separate block: store { url = … }",
		"readonly observer":                               "it is read_only = true; an agent that claims nothing has workers = 0",
		"readonly_token viewer_token":                     "it is read_token",
	})
}

func calledInStore() map[string]string {
	return synonyms(map[string]string{
		"dsn database database_url uri connection path file": `it is url = "postgres://user@host/database" or "sqlite:path"`,
		"pool_size max_connections":                          "it is connections",
		"ttl keep":                                           "it is retention",
	})
}

func calledInSchedule() map[string]string {
	return synonyms(map[string]string{
		"type job job_name worker handler":                                     `the type of its tasks is task = "report.build"`,
		"schedule expression crontab cron_expression spec":                     `it is cron = "0 3 * * *"`,
		"interval rate period repeat_every fixed_rate":                         `it is every = "15m"`,
		"delay fixed_delay":                                                    `from the end of one task to the next is after = "15m"`,
		"tz time_zone zone location":                                           `it is timezone = "Asia/Singapore"`,
		"data args arguments params parameters body input":                     `it is payload = { kind = "daily" }`,
		"start start_at starts_at start_date start_time not_before":            "it is from",
		"end end_at ends_at end_date end_time expires not_after":               "it is until",
		"spread splay random_delay":                                            "it is jitter",
		"catchup backfill misfire misfire_policy":                              `use missed = "one", "all" or "none", and catch_up`,
		"starting_deadline startingdeadlineseconds max_age":                    "it is catch_up",
		"concurrency concurrency_policy concurrencypolicy coalesce no_overlap": `use overlap = "skip" or "queue"`,
		"command webhook retry timeout heartbeat workers":                      "it belongs in the task block of the type that task names",
		"name": `write the name before the brace: schedule "name" { … }`,
	})
}

func calledInChunks() map[string]string {
	return synonyms(map[string]string{
		"type job job_name worker handler": `the type of its tasks is task = "event.process"`,
		"table key where url":              "it belongs in the source block",
		"database query from":              "the table that is cut is in the source block: table and key",
		"chunk_size batch_size rows limit": "it is size = 1000",
		"target min max start":             "it is a member of size, as in " + sizeExample,
		"concurrency parallelism parallel max_in_flight max_pending gridsize": "the chunks that wait or run at once are ahead = 64",
		"interval every poll watch repeat cron":                               `it is follow = "30s"`,
		"oldest_transaction when":                                             "it belongs in the throttle block",
		"command webhook retry timeout heartbeat workers":                     "it belongs in the task block of the type that task names",
		"name": `write the name before the brace: chunks "name" { … }`,
	})
}

func calledInSource() map[string]string {
	return synonyms(map[string]string{
		"dsn database database_url uri connection path file": `it is url = "postgres://user@host/database" or "sqlite:path"`,
		"name from table_name":                               `it is table = "event"`,
		"schema":                                             `it stands before the table's name, as in table = "public.event"`,
		"column id primary_key pk order_by by cursor":        `it is key = "id"`,
		"condition filter predicate":                         `it is where = "status = 0"`,
	})
}

func calledInThrottle() map[string]string {
	return synonyms(map[string]string{
		"query sql condition where while":                          `it is when = "SELECT count(*) > 100 FROM other_work"`,
		"max_transaction_age transaction_age max_age longest_xact": `it is oldest_transaction = "10m"`,
	})
}

func calledInFile() map[string]string {
	return synonyms(map[string]string{
		"job worker queue":         `declare each type of task: task "name" { … }`,
		"chunk partition":          `a big table is cut by chunks "name" { … }`,
		"cron crontab":             `recurring tasks are schedule "name" { … }`,
		"command webhook retry":    `it belongs in a task block: task "name" { … }`,
		"database postgres sqlite": "it is store { url = … }",
		"server settings config":   "it is agent { … }",
	})
}
