#!/bin/sh
# A photos.scan task that reports two photos and hangs at the third. It pings on descriptor 3.
echo '{"progress": {"done": 1, "total": 3}, "message": "1.jpg"}' >&3
echo '{"progress": {"done": 2, "total": 3}, "message": "2.jpg"}' >&3
exec sleep 600
