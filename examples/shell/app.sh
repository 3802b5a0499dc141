#!/bin/sh
# A small application: it stores names, and has Leasehold run the greetings and the reports. Each script in
# www/cgi-bin handles one kind of request.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
# The server starts each script in its own directory, so the path must be absolute.
case $DATABASE_URL in
  sqlite:/*) ;;
  sqlite:*) DATABASE_URL=sqlite:$PWD/${DATABASE_URL#sqlite:} ;;
esac
transaction <"$here/../schema.sql" 2>/dev/null
export APP_HOME="$here" DATABASE_URL WEBHOOK_SECRET
exec busybox httpd -f -p "127.0.0.1:${PORT:-8080}" -h "$here/www"
