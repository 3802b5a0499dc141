#!/bin/sh
# A video.encode task that hangs, with a child, a grandchild and another child. All of them ignore SIGTERM (children inherit
# ignored signals). Each records its process id.
trap '' TERM
note='echo $$ >>encode.pids'
eval "$note"
sh -c "$note; sh -c '$note; exec sleep 600' & wait" &
sh -c "$note; exec sleep 600" &
wait
