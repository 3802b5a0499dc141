package envelope

import "time"

// ManyTail ends the document of a request with many tasks.
const ManyTail = "]}}"

// AppendMany begins the document of a request with many tasks: the envelope, whose data has the tasks. After it come their
// elements, with a comma between them, and ManyTail.
func AppendMany(b []byte, typ string, now time.Time) []byte {
	return append(appendHead(b, typ, now), `{"tasks":[`...)
}

// OneOfMany writes the document of a request with the attempt alone, to a target that may get many.
func (e *Envelope) OneOfMany() ([]byte, error) {
	b, err := e.AppendElement(AppendMany(make([]byte, 0, 256+e.size()), e.Type, e.Now))
	if err != nil {
		return nil, err
	}
	return append(b, ManyTail...), nil
}

// AppendElement appends the element of an attempt: the data and the task of its own envelope. Its task also has what a request for
// it alone says in its header. Errors are those of JSON, and leave b as it was.
func (e *Envelope) AppendElement(b []byte) ([]byte, error) {
	if err := e.check(); err != nil {
		return b, err
	}
	b = append(b, `{"data":`...)
	b = append(b, e.Task.Data()...)
	b = append(b, `,"task":`...)
	b = e.appendTask(b)
	b = append(b, `,"webhook_id":"`...)
	b = append(b, e.MessageID()...)
	b = append(b, `","traceparent":"`...)
	b = append(b, e.Traceparent()...)
	return append(b, `"}}`...), nil
}
