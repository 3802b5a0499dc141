#!/bin/sh
# One photos.scan task, gone wrong: it tells of two photos, and hangs at the third. Descriptor 3 takes its pings.
echo '{"progress": {"done": 1, "total": 3}, "message": "1.jpg"}' >&3
echo '{"progress": {"done": 2, "total": 3}, "message": "2.jpg"}' >&3
exec sleep 600
