package envelope

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/leasehold/leasehold/internal/task"
)

// appendAfter adds what is known of the tasks that the row has waited for.
func appendAfter(b []byte, after *task.After) []byte {
	b = append(b, `,"after":[`...)
	for i := range after.Tasks {
		p := &after.Tasks[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = strconv.AppendInt(b, int64(p.ID), 10)
		b = append(b, `,"type":`...)
		b = appendName(b, p.Type)
		b = append(b, `,"state":`...)
		b = appendName(b, string(p.State))
		b = append(b, `,"result":`...)
		b = appendJSON(b, p.Result, "null")
		b = append(b, '}')
	}
	b = append(b, `],"after_truncated":`...)
	return strconv.AppendBool(b, after.Truncated)
}

// checkAfter returns an error where a result is no JSON.
func checkAfter(after *task.After) error {
	if after == nil {
		return nil
	}
	for i := range after.Tasks {
		if p := &after.Tasks[i]; p.Result != nil && !json.Valid(p.Result) {
			return fmt.Errorf("write the envelope: the result of task %d, which was waited for, is not JSON", p.ID)
		}
	}
	return nil
}
