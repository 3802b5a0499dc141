# shellcheck shell=sh
# The shared code of this application's scripts. It needs jq, openssl, and psql or sqlite3.

DATABASE_URL=${DATABASE_URL:-sqlite:leasehold.db}
WEBHOOK_SECRET=${WEBHOOK_SECRET:-whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==}

# transaction runs the SQL on its standard input as one transaction, all or nothing, and prints the rows.
transaction() {
  case $DATABASE_URL in
    sqlite:*) { printf '.timeout 5000\nBEGIN IMMEDIATE;\n' && cat && echo 'COMMIT;'; } |
      sqlite3 -batch -bail "${DATABASE_URL#sqlite:}" ;;
    *) psql -XqAt --single-transaction -v ON_ERROR_STOP=1 -f - "$DATABASE_URL" ;;
  esac
}

# tasks is the name of the table of tasks.
case $DATABASE_URL in sqlite:*) tasks=task ;; *) tasks=leasehold.task ;; esac

# sql FILTER converts the JSON on its standard input to SQL. In the filter, q quotes a value, and enqueue(type; payload)
# is the statement that adds a task.
sql() {
  jq -r --arg tasks "$tasks" '
    def q: tostring | gsub("\u0027"; "\u0027\u0027") | "\u0027" + . + "\u0027";
    def enqueue($type; $payload):
      "INSERT INTO \($tasks) (type, payload) VALUES (\($type | q), \($payload | tojson | q)) RETURNING id;";
    '"$1"
}

# answer STATUS JSON ends a CGI request.
answer() {
  printf 'Status: %s\r\nContent-Type: application/json\r\n\r\n%s' "$1" "$2"
  exit 0
}

# insert runs the SQL on its standard input and responds with the ids that it prints.
insert() {
  if out=$(transaction 2>&1); then
    answer '201 Created' "$(printf '%s\n' "$out" | jq -cs '{tasks: .}')"
  fi
  case $out in
    *UNIQUE* | *'duplicate key'*) answer '409 Conflict' '{"error": "that name is taken"}' ;;
    *) answer '500 Internal Server Error' "$(printf '%s' "$out" | jq -cRs '{error: .}')" ;;
  esac
}

# signed FILE checks the signature of the request body in FILE, https://www.standardwebhooks.com.
signed() {
  age=$(($(date +%s) - ${HTTP_WEBHOOK_TIMESTAMP:-0}))
  [ "${age#-}" -lt 300 ] || return 1
  key=$(printf '%s' "${WEBHOOK_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
  want=v1,$({ printf '%s.%s.' "$HTTP_WEBHOOK_ID" "$HTTP_WEBHOOK_TIMESTAMP" && cat "$1"; } |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
  case " $HTTP_WEBHOOK_SIGNATURE " in *" $want "*) ;; *) return 1 ;; esac
}
