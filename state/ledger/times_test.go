package ledger_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"time"

	"holon/state/ledger"
)

// Every record, and what is in it, has times in one form.
func TestTimesOfRecords(t *testing.T) {
	form := regexp.MustCompile(`"2026[^"]*"`)
	for _, record := range []any{ledger.Agent{}, ledger.AgentState{}, ledger.Message{}, ledger.Entry{}, ledger.Attempt{},
		ledger.Turn{}, ledger.Wait{}, ledger.WorkItem{}, ledger.DeliverySummary{}, ledger.Task{}, ledger.Timer{},
		ledger.Trigger{}, ledger.Brief{}, ledger.Notification{}, ledger.OperatorBinding{}, ledger.Delivery{},
		ledger.ExpiredOutput{}, ledger.Command{}, ledger.Event{}, ledger.Failure{}, ledger.WakeHint{}} {
		row := reflect.TypeOf(record)
		v := reflect.New(row)
		setTimes(v.Elem())
		data, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(row, err)
		}
		for _, got := range form.FindAllString(string(data), -1) {
			if got != `"2026-11-22T03:04:05.120Z"` {
				t.Errorf("%s has the time %s", row, got)
			}
		}
	}
}

// A row is as it was before but for the form of its times, and one that is not set is absent.
func TestRowWithTimes(t *testing.T) {
	made := time.Date(2026, 11, 22, 4, 4, 5, 120_900_000, time.FixedZone("", 3600))
	got, err := json.Marshal(&ledger.Entry{MessageID: "msg_1", CreatedAt: made, Reason: "<r>"})
	const want = `{"message_id":"msg_1","agent_id":"","sender":"","priority":"","status":"","readmitted":0,"failed":0,` +
		`"reason":"\u003cr\u003e","created_at":"2026-11-22T03:04:05.120Z","updated_at":null}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}

// setTimes sets the times of a record, and of what it has.
func setTimes(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 11, 22, 3, 4, 5, 120_000_000, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				setTimes(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setTimes(v.Elem())
	case reflect.Slice:
		if v.Type() != reflect.TypeFor[json.RawMessage]() {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			setTimes(v.Index(0))
		}
	}
}
