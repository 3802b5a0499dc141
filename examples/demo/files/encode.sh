#!/bin/sh
# One video.encode task, gone wrong: it hangs, with a child, a grandchild and another child, and none of them listens
# to SIGTERM (an ignored signal stays ignored in children). Each notes its number.
trap '' TERM
note='echo $$ >>encode.pids'
eval "$note"
sh -c "$note; sh -c '$note; exec sleep 600' & wait" &
sh -c "$note; exec sleep 600" &
wait
