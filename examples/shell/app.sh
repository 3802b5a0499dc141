#!/bin/sh
# A small application: it keeps names and leaves the greeting, and the reports, to Leasehold. Each script in
# www/cgi-bin is one of its pages.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
# The server starts the scripts in their own directory: a path must not be relative.
case $DATABASE_URL in
  sqlite:/*) ;;
  sqlite:*) DATABASE_URL=sqlite:$PWD/${DATABASE_URL#sqlite:} ;;
esac
transaction <"$here/../schema.sql" 2>/dev/null
export APP_HOME="$here" DATABASE_URL WEBHOOK_SECRET
exec busybox httpd -f -p "127.0.0.1:${PORT:-8080}" -h "$here/www"
