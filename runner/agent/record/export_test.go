package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"holon/test/expect"

	"holon/responses/agentruntime"
)

func export(t *testing.T, kind string, log []agentruntime.Event) *Document {
	t.Helper()
	d, ok := NewDocument(kind, "ada")
	if !ok {
		t.Fatalf("there is no export %s", kind)
	}
	for i := range log {
		if !d.Add(&log[i]) {
			t.Fatal("the log is too long")
		}
	}
	expect.NoError(t, d.Close(0))
	return d
}

// The three documents of a cut agree about it, and about every status.
func TestExportsAreOfOneCut(t *testing.T) {
	log := events(t)
	evidence, replay, review := export(t, "evidence", log), export(t, "replay", log), export(t, "review", log)
	if len(evidence.Events) != len(log) || len(replay.Events) != len(log) || len(review.Events) != 0 {
		t.Errorf("%d, %d and %d events, want %d, %d and 0", len(evidence.Events), len(replay.Events),
			len(review.Events), len(log), len(log))
	}
	if len(evidence.ReadModels) != 13 || len(replay.ReadModels) != 0 || len(review.ReadModels) != 13 {
		t.Errorf("%d, %d and %d read models, want 13, 0 and 13", len(evidence.ReadModels), len(replay.ReadModels),
			len(review.ReadModels))
	}
	for _, d := range []*Document{replay, review} {
		if d.Manifest.Digests["events"] != evidence.Manifest.Digests["events"] {
			t.Errorf("the %s is of other events than the evidence", d.Manifest.Kind)
		}
	}
	again := export(t, "evidence", log)
	want, _ := json.Marshal(evidence)
	if got, _ := json.Marshal(again); string(got) != string(want) {
		t.Error("the same cut gives another document")
	}
	if got, want := everything(t, fold(replay.Events)), everything(t, fold(log)); got != want {
		t.Errorf("replaying the export gives\n%s\nwant\n%s", got, want)
	}
}

// What a part has is written as jq writes it.
func TestEncodedAsByJq(t *testing.T) {
	const text = "<a href=\"x\">&amp;\u2028\u2029\x7f\b\f\x01\\\\u003c é"
	got, err := encode(map[string]any{"text": text, "raw": json.RawMessage(`"\u003c\\u003c"`)})
	const want = `{"raw":"<\\u003c","text":"<a href=\"x\">&amp;` + "\u2028\u2029" + `\u007f\b\f\u0001\\\\u003c é"}`
	if err != nil || string(got) != want {
		t.Errorf("encoded as\n%s (%v)\nwant\n%s", got, err, want)
	}
}

// A reader can check the digests with what the document holds.
func TestDigestsAreOfTheDocument(t *testing.T) {
	text, err := export(t, "evidence", events(t)).Encode()
	expect.NoError(t, err)
	var d struct {
		Manifest   Manifest                   `json:"manifest"`
		Events     []json.RawMessage          `json:"events"`
		ReadModels map[string]json.RawMessage `json:"read_models"`
	}
	expect.NoError(t, json.Unmarshal(text, &d))
	lines := sha256.New()
	for _, e := range d.Events {
		lines.Write(append(e, '\n'))
	}
	parts := map[string]string{"events": hex.EncodeToString(lines.Sum(nil))}
	for name, model := range d.ReadModels {
		digest := sha256.Sum256(model)
		parts["read_models."+name] = hex.EncodeToString(digest[:])
	}
	for part, got := range parts {
		if want := d.Manifest.Digests[part]; "sha256:"+got != want {
			t.Errorf("the digest of %s is %s, want %s", part, got, want)
		}
	}
	if len(parts) != len(d.Manifest.Digests) {
		t.Errorf("%d digests, want %d", len(d.Manifest.Digests), len(parts))
	}
}

// An export of a failed turn has what failed in it, and what was denied.
func TestAnExportHasWhatFailed(t *testing.T) {
	have := map[string]int{}
	for _, e := range export(t, "review", events(t)).Failures {
		have[e.Type]++
	}
	for class, want := range map[string]int{"turn.failed": 1, "model.failed": 1, "tool.failed": 1, "task.lost": 1,
		"permission.evaluated": 1, "sandbox.violation": 1, "turn.completed": 0} {
		if have[class] != want {
			t.Errorf("%d %s among the failures, want %d", have[class], class, want)
		}
	}
}

func TestGapsAreThoseThatThereAre(t *testing.T) {
	log := events(t)
	if gaps := export(t, "evidence", log).Manifest.KnownGaps; len(gaps) != 0 {
		t.Errorf("a whole record has the gaps %v", gaps)
	}
	gaps := export(t, "evidence", append(log[:3:3], log[10:]...)).Manifest.KnownGaps
	if len(gaps) != 1 || gaps[0] != (gap{4, 10}) {
		t.Errorf("the gaps are %v, want 4 to 10", gaps)
	}
}

// A cut of which nothing is left is reported as such, and not as an empty record.
func TestACutOfWhichNothingIsLeft(t *testing.T) {
	d, _ := NewDocument("evidence", "ada")
	expect.NoError(t, d.Close(100))
	if m := d.Manifest; m.ThroughSequence != 100 || len(m.KnownGaps) != 1 || m.KnownGaps[0] != (gap{1, 100}) ||
		!m.Unclassified {
		t.Errorf("the manifest is %+v, want a gap from 1 to 100", m)
	}
}
