package scheduler_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// The record tells of 50 files of a turn and counts the others, and the times in its payloads have milliseconds.
func TestFilesBeyondTheBoundAreCounted(t *testing.T) {
	w := open(t)
	c := w.working()
	end := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, ResponseID: "resp_1", StartedAt: w.now,
		CompletedAt: w.now.Add(1_020_300_007)}}
	for i := range 63 {
		end.Artifacts = append(end.Artifacts, turns.Artifact{Path: fmt.Sprint("file ", i)})
	}
	w.settle(c.Attempt.ID, end)
	w.view(func(v ledger.View) error {
		briefs, err := v.Briefs("alpha", 1)
		first := briefs[0].Attachments[0]
		expect.Equal(t, "attachments", len(briefs[0].Attachments), 32)
		expect.Equal(t, "the first one", first.Name+" "+first.URI,
			"file 0 /agents/alpha/turns/"+c.Attempt.TurnID+"/files/file%200")
		return err
	})
	fold := record.New("alpha")
	_, events := w.events(0)
	for _, e := range events {
		event := record.RuntimeEvent(e, testLog)
		fold.Apply(&event)
		if e.Class == "turn.completed" {
			var p struct {
				At string `json:"completed_at"`
			}
			w.must(json.Unmarshal(e.Data, &p))
			expect.Equal(t, "completed_at", p.At, end.CompletedAt.UTC().Format("2006-01-02T15:04:05.000Z"))
		}
	}
	model, _ := fold.Model("artifact_checkpoint_summary")
	got := model.(record.ArtifactSummary).Artifacts
	if len(got.Items) != 50 || got.Total != 63 || got.Omitted != 13 {
		t.Errorf("%d files are listed of %d, %d omitted, want 50 of 63, 13 omitted", len(got.Items), got.Total, got.Omitted)
	}
}
