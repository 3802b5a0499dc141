package work

import (
	"strconv"
	"time"
)

// Payload is that of every row but those of Latency.
const Payload = `{"n": 1}`

// Body is what an HTTP row sends: the envelope that Leasehold sends by default. Peers send one of the
// same form and length, so all POST the same bytes.
func Body(id int64, payload []byte, now time.Time) []byte {
	const stamp = "2006-01-02T15:04:05.000000Z07:00"
	b := make([]byte, 0, 512)
	b = append(b, `{"type":"`+TaskType+`","timestamp":"`...)
	b = now.UTC().AppendFormat(b, stamp)
	b = append(b, `","data":`...)
	b = append(b, payload...)
	b = append(b, `,"task":{"id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"phase":"run","attempt":1,"max_attempts":3,"fence":1,"deadline":"`...)
	b = now.Add(20*time.Second).UTC().AppendFormat(b, stamp)
	b = append(b, `","remaining_s":20.000,"heartbeat_s":null,"ping_url":"http://127.0.0.1:7070/ping/`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `.1.Wzzt0vkhY-T322AAr5ra5pWu","batch":null,"key":null,"region":null,"labels":{},"checkpoint":null,"previous":null}}`...)
	return b
}
