package agent_test

import (
	"encoding/json"
	"testing"

	"holon/responses/agentruntime"
	"holon/runner/agent/record"
	"holon/state/ledger"
	"holon/test/expect"
)

// The record of an agent has the files that a turn left for its user, before the end of the turn, and not what tools
// printed.
func TestArtifactsAreRecorded(t *testing.T) {
	t.Parallel()
	l := newLab(t, `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "printf report > $HOLON_OUTPUT_DIR/report.md; seq 40000"}}]
  - {text: "done"}
`)
	l.start()
	defer l.end()
	l.untilStatus(l.prompt("work", "", ""), ledger.Processed)
	files, ended := 0, false
	for _, e := range l.recorded() {
		ended = ended || record.Of(e).Name == record.TurnTerminal
		if record.Of(e).Name != record.ArtifactChanged {
			continue
		}
		files++
		var p struct {
			Op, Kind, Digest string
			Ref              string `json:"read_ref"`
			Size             int64  `json:"size_bytes"`
		}
		expect.NoError(t, json.Unmarshal(e.Data, &p))
		if want := "turns/" + e.TurnID + "/artifacts/report.md"; p.Ref != want || p.Size != 6 || p.Op != "created" ||
			p.Kind != "file" || len(p.Digest) != len("sha256:")+64 || e.IDs[agentruntime.Artifact] == "" || ended {
			t.Errorf("%+v after the end: %v, want %s with 6 bytes, created, before it", p, ended, want)
		}
	}
	expect.Equal(t, "files are recorded", files, 1)
}
