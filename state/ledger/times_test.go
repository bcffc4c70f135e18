package ledger_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"holon/state/ledger"
)

// internal are the rows that no answer or event has as they are stored.
var internal = map[reflect.Type]bool{
	reflect.TypeFor[ledger.AgentState](): true,
	reflect.TypeFor[ledger.Attempt]():    true,
	reflect.TypeFor[ledger.Command]():    true,
}

// Every row that the ledger takes, and what is in it, has times in one form.
func TestTimesOfRows(t *testing.T) {
	rows := map[reflect.Type]bool{
		reflect.TypeFor[ledger.Failure]():  true,
		reflect.TypeFor[ledger.WakeHint](): true,
	}
	tx := reflect.TypeFor[ledger.Tx]()
	for i := range tx.NumMethod() {
		for in := range tx.Method(i).Type.Ins() {
			if in.Kind() == reflect.Pointer {
				in = in.Elem()
			}
			row := in.Kind() == reflect.Struct && in != reflect.TypeFor[time.Time]() && !internal[in]
			if row && strings.HasSuffix(in.PkgPath(), "state/ledger") {
				rows[in] = true
			}
		}
	}
	if len(rows) < 15 {
		t.Fatalf("%d types of rows", len(rows))
	}
	form := regexp.MustCompile(`"2026[^"]*"`)
	for row := range rows {
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
