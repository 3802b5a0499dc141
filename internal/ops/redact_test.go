package ops

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// redacting is a store with one task and one schedule, which masks some members.
type redacting struct {
	Store
	Schedules
	task  store.TaskInfo
	plan  store.ScheduleInfo
	names map[string][]string
	err   error
}

func (r *redacting) Get(context.Context, task.ID) (*store.TaskInfo, error) {
	i := r.task
	return &i, nil
}

func (r *redacting) List(context.Context, store.TaskFilter) ([]store.TaskInfo, error) {
	return []store.TaskInfo{r.task}, nil
}

func (r *redacting) Window(context.Context, store.TaskFilter, int) (w store.Window, err error) {
	return w, nil
}

func (r *redacting) ListSchedules(context.Context, store.ScheduleFilter) (store.ScheduleList, error) {
	return store.ScheduleList{List: []store.ScheduleInfo{r.plan}, Now: time.Now()}, nil
}

func (r *redacting) Redactions(context.Context) (map[string][]string, error) { return r.names, r.err }

// everywhere is a task with a card in every document that it has.
func everywhere() store.TaskInfo {
	doc := json.RawMessage(`{"card":"4111","n":1}`)
	i := store.TaskInfo{ID: 7, Type: "pay", State: task.StateSucceeded, History: []store.AttemptInfo{{Attempt: 1, Result: doc}}}
	fill(reflect.ValueOf(&i).Elem(), doc)
	return i
}

// fill gives all fields that are documents this one: one that is added later must be masked, too.
func fill(v reflect.Value, doc json.RawMessage) {
	for _, field := range v.Fields() {
		if field.Type() == reflect.TypeFor[json.RawMessage]() {
			field.Set(reflect.ValueOf(doc))
		}
	}
}

func TestTasksAreShownMasked(t *testing.T) {
	s := &redacting{task: everywhere(), names: map[string][]string{"pay": {"card"}, "other": {"n"}}}
	fill(reflect.ValueOf(&s.plan.ScheduleSpec).Elem(), json.RawMessage(`{"card":"4111","n":1}`))
	s.plan.Task = "pay"
	one, err := ReadTask(t.Context(), s, 7)
	require.NoError(t, err)
	page, err := PageTasks(t.Context(), s, store.TaskFilter{}, 0)
	require.NoError(t, err)
	var watched []Task
	waited, err := Wait(t.Context(), s, []task.ID{7}, Watch{Changed: func(i Task) { watched = append(watched, i) }})
	require.NoError(t, err)
	schedules, err := ListSchedules(t.Context(), s, store.ScheduleFilter{})
	require.NoError(t, err)
	schedule, err := ShowSchedule(t.Context(), s, "nightly")
	require.NoError(t, err)
	for name, shown := range map[string]any{
		"read": one, "listed": page.Tasks, "waited for": waited, "watched": watched, "schedules": schedules, "schedule": schedule,
	} {
		doc, err := json.Marshal(shown)
		require.NoError(t, err, name)
		require.NotContains(t, string(doc), "4111", name)
		require.Contains(t, string(doc), `{"card":"(redacted)","n":1}`, name)
	}
	require.Equal(t, 7, strings.Count(mustJSON(t, one), Masked))
	require.Contains(t, string(s.task.Payload), "4111", "what the store gave stays")
	require.Contains(t, string(s.task.History[0].Result), "4111")
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	doc, err := json.Marshal(v)
	require.NoError(t, err)
	return string(doc)
}

func TestNothingIsShownWhereTheNamesAreNotKnown(t *testing.T) {
	s := &redacting{task: everywhere(), err: errors.New("permission denied for view redactions")}
	const want = "documents cannot be shown, because it is not known what to redact: permission denied"
	_, err := ReadTask(t.Context(), s, 7)
	require.ErrorContains(t, err, want)
	_, err = PageTasks(t.Context(), s, store.TaskFilter{}, 0)
	require.ErrorContains(t, err, want)
	_, err = ShowSchedule(t.Context(), s, "nightly")
	require.ErrorContains(t, err, want)
	_, err = ListSchedules(t.Context(), s, store.ScheduleFilter{})
	require.ErrorContains(t, err, want)
	ctx, cancel := context.WithCancel(t.Context())
	seen, err := Wait(ctx, s, []task.ID{7}, Watch{
		Changed: func(Task) { t.Error("shown") },
		Trouble: func(err error) { require.ErrorContains(t, err, want); cancel() },
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []*Task{nil}, seen)
	_, err = json.Marshal(everywhere())
	require.ErrorContains(t, err, "ops.Task", "what the store gives does not become JSON by mistake")
	_, err = json.Marshal([]*store.TaskInfo{new(everywhere())})
	require.Error(t, err)
}

func TestRowsOfOnFailedAreMasked(t *testing.T) {
	masks := Redactions{"pay": NewMask("card"), "dead": NewMask("iban"), "other": NewMask("pin")}
	letter := func(payload string) *Task {
		return masks.Task(&store.TaskInfo{Type: "dead", FailedTask: 7, Payload: json.RawMessage(payload)})
	}
	require.JSONEq(t, `{"type":"pay","data":{"card":"(redacted)","iban":"(redacted)","pin":3}}`,
		string(letter(`{"type":"pay","data":{"card":1,"iban":2,"pin":3}}`).Payload))
	for _, unknown := range []string{`{"data":{"card":1,"iban":2,"pin":3}}`, `{"type":7,"data":{"card":1,"iban":2,"pin":3}}`} {
		require.Equal(t, 3, strings.Count(string(letter(unknown).Payload), Masked), "it is not known whose data it is")
	}
	require.JSONEq(t, `{"type":"free","card":1}`, string(letter(`{"type":"free","card":1}`).Payload))
	i := masks.Task(&store.TaskInfo{Type: "free", Payload: json.RawMessage(`{"type":"pay","card":1}`)})
	require.JSONEq(t, `{"type":"pay","card":1}`, string(i.Payload), "no row of on_failed")
}

func TestWhatIsNotJSONIsMasked(t *testing.T) {
	masks := Redactions{"pay": NewMask("card")}
	i := store.TaskInfo{Type: "pay", Payload: json.RawMessage(`"{\"\\u0063ard\":4111"`), Progress: json.RawMessage(`"page 7"`), NotJSON: true}
	shown := masks.Task(&i)
	require.Equal(t, maskedText, string(shown.Payload))
	require.Equal(t, maskedText, string(shown.Progress))
	i.NotJSON, i.Payload = false, json.RawMessage(`{}`)
	require.Equal(t, `"page 7"`, string(masks.Task(&i).Progress))
	i.Type, i.NotJSON = "free", true
	require.Equal(t, `"page 7"`, string(masks.Task(&i).Progress))
}
