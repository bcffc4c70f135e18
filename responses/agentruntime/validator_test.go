package agentruntime

import (
	"bytes"
	"encoding/json"
	"holon/test/expect"
	"reflect"
	"strings"
	"testing"
)

// Lines that are no events, and lines without an end, are reported and passed over.
func TestHostileLines(t *testing.T) {
	good, err := json.Marshal(events(t, "session.created")[0])
	expect.NoError(t, err)
	var lines []int
	v := NewValidator('A', func(v Violation) {
		if v.Rule != "decode" || strings.Contains(v.Got, "Go ") || strings.Contains(v.Got, "json:") {
			t.Errorf("%+v", v)
		}
		lines = append(lines, v.Line)
	})
	cased := strings.Replace(string(good), `"event_id"`, `"Event_ID"`, 1)
	twice := strings.Replace(string(good), `{`, `{"type":"x",`, 1)
	log := strings.Join(
		[]string{"[]", "null", "{\"type\":", strings.Repeat("x", 3*maxLine), string(good), "{", cased, twice,
			"{\"type\":\"\xff\"}", strings.Repeat("[", 100)},
		"\n",
	)
	expect.NoError(t, v.Read("log", strings.NewReader(log)))
	if want := []int{1, 2, 3, 4, 6, 7, 8, 9, 10}; !reflect.DeepEqual(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
	if n, _, _ := v.Summary(); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// A field that is not of its type is one violation, which names it. The event is judged by its other fields.
func TestMisfits(t *testing.T) {
	log := events(t, "begin\nmodel.requested {\"attempt\":1}")
	for _, tt := range []struct{ old, new, want string }{
		{`"sequence":3`, `"sequence":3.0`, ""},
		{`"sequence":3`, `"sequence":30e-1`, ""},
		{`"sequence":3`, `"sequence":3.5`, "V1 sequence 3.5, a whole number"},
		{`"sequence":3`, `"sequence":"3"`, `V1 sequence "3", a whole number`},
		{`"sequence":3`, `"sequence":1e99`, "V1 sequence 1e99, a whole number"},
		{`"event_id":"evt_3"`, `"event_id":{}`, "V1 event_id {}, a text"},
		{`"payload":{}`, `"payload":[1]`, "V1 payload [1], an object"},
		{`"thread_id":"thread_id-1"`, `"thread_id":true`, "V2 thread_id true, a text"},
		{`"type"`, `"task_id":7,"type"`, "V2 task_id 7, a text"},
		{`"status":"running"`, `"status":7`, "decode status 7, a text"},
		{`"correlation":{"causation_id":"of a client"}`, `"correlation":7`, "decode correlation 7, an object"},
		{`{"causation_id":"of a client"}`, `{"causation_id":7,"producer_seq":2.0}`, "decode correlation.causation_id 7, a text"},
	} {
		var found []string
		v := NewValidator(LevelC, func(v Violation) {
			found = append(found, v.Rule+" "+v.Got+", "+v.Want)
		})
		for i := range log {
			line, err := json.Marshal(log[i])
			expect.NoError(t, err)
			if i == 2 {
				line = []byte(strings.Replace(string(line), tt.old, tt.new, 1))
			}
			expect.NoError(t, v.Read("log", bytes.NewReader(line)))
		}
		if got := strings.Join(found, "; "); got != tt.want {
			t.Errorf("%s instead of %s: %s, want %s", tt.new, tt.old, got, tt.want)
		}
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
		expect.NoError(t, NewValidator(LevelC, func(Violation) {}).Read("log", bytes.NewReader(data)))
		var e, again Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		out, err := json.Marshal(e)
		expect.NoError(t, err)
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if twice, _ := json.Marshal(again); !bytes.Equal(out, twice) {
			t.Errorf("encodes to %s and then to %s", out, twice)
		}
	})
}
