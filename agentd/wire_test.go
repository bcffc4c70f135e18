package agentd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

const hello = `
rounds:
  - reasoning: A greeting is asked for.
    text: Hello there.
    usage: {input_tokens: 10, output_tokens: 3, cached_tokens: 4, reasoning_tokens: 1}
`

func TestRuntimeEvents(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("work", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'echo hi; exit 3'}}, "+
		"{tool: NoSuchTool, arguments: {}}]\n  - text: Done.\n")
	if resp := h.post(`{"model":"` + ref +
		`","input":"go","holon":{"turn_id":"turn_a"}}`).response(t); resp.Status != responses.StatusCompleted {
		t.Fatalf("the turn is %s", resp.Status)
	}
	var classes []string
	for _, ev := range h.runtimeEvents("turn_a", "?follow=true") {
		classes = append(classes, ev.Type)
	}
	lines := func(query string) []byte { return h.do(http.MethodGet, "/turns/turn_a/events"+query, "").body }
	want := "thread.started turn.submitted turn.started sandbox.applied tool.catalog.resolved context.resolved " +
		"routing.single_candidate model.requested model.completed cost.recorded tool.started process.started process.completed " +
		"tool.result tool.started tool.failed model.requested model.completed cost.recorded " +
		"turn.completed"
	if strings.Join(classes, " ") != want {
		t.Errorf("the facts are %v", classes)
	}
	if file := h.read("turn_a", turns.JournalFile); !bytes.Equal(lines(""), file) {
		t.Errorf("served is\n%s\nnot what the file has\n%s", lines(""), file)
	} else if got := lines("?after=4"); !bytes.HasPrefix(got, []byte(`{"seq":5,`)) || !bytes.HasSuffix(file, got) {
		t.Errorf("after the 4th line come\n%s", got)
	}
	var sparse []byte
	for line := range bytes.Lines(lines("?after=4")) {
		if !bytes.Contains(line, []byte(`.delta","`)) {
			sparse = append(sparse, line...)
		}
	}
	if got := lines("?after=4&deltas=false"); !bytes.Equal(got, sparse) || len(sparse) == len(lines("?after=4")) {
		t.Errorf("without deltas come\n%s", got)
	}
	rec := h.record("turn_a")
	if rec.Rounds != 2 || rec.ToolCalls.Total != 2 || rec.ToolCalls.Failed != 1 ||
		rec.Status != responses.StatusCompleted || len(rec.Artifacts) != 1 {
		t.Errorf("%+v", rec)
	}
	served := h.do(http.MethodGet, "/turns/turn_a", "")
	var disk, wire any
	file, err := os.ReadFile(h.file("turn_a", turns.RecordFile))
	if err = errors.Join(err, json.Unmarshal(file, &disk), json.Unmarshal(served.body, &wire)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(disk) != fmt.Sprint(wire) {
		t.Errorf("GET answers\n%v\nand the disk has\n%v", wire, disk)
	}
	for query, code := range map[string]string{"/turns/turn_a/events?after=-1": responses.CodeInvalidValue,
		"/turns/turn_b/events": responses.CodeTurnNotFound, "/turns/a%2Fb": responses.CodeInvalidValue,
		"/turns/..": responses.CodeInvalidValue, "/turns/x.y": responses.CodeInvalidValue,
		"/turns/turn_b": responses.CodeTurnNotFound} {
		if e := h.do(http.MethodGet, query, "").failure(t); e.Code != code {
			t.Errorf("%s: %s, want %s", query, e.Code, code)
		}
	}
}
