package agentruntime_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	. "holon/responses/agentruntime"
)

// Lines that are no events, and lines without an end, are reported and passed over.
func TestHostileLines(t *testing.T) {
	good, err := json.Marshal(events(t, "session.created")[0])
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	v := NewValidator(LevelA, func(v Violation) {
		if v.Rule != "decode" {
			t.Errorf("%+v", v)
		}
		lines = append(lines, v.Line)
	})
	cased := strings.Replace(string(good), `"event_id"`, `"Event_ID"`, 1)
	twice := strings.Replace(string(good), `{`, `{"type":"x",`, 1)
	log := strings.Join(
		[]string{"[]", "null", `{"type":1}`, strings.Repeat("x", 3*MaxLine), string(good), "{", cased, twice,
			"{\"type\":\"\xff\"}", strings.Repeat("[", 100)},
		"\n",
	)
	if err := v.Read("log", strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 2, 3, 4, 6, 7, 8, 9, 10}; !reflect.DeepEqual(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
	if n, _, _ := v.Summary(); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(
		[]byte(
			`{"type":"turn.started","sequence":1,"turn_id":"t","payload":{"a":{"b":1}},"correlation":{"producer":"p"}}`,
		),
	)
	f.Add([]byte("null\n{}\n{\"payload\":null}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := NewValidator(LevelC, func(Violation) {}).Read("log", bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		var e, again Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		out, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if twice, _ := json.Marshal(again); !bytes.Equal(out, twice) {
			t.Errorf("encodes to %s and then to %s", out, twice)
		}
	})
}
