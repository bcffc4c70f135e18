package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/internal/durable"
	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/stream"
	"holon/responses/turns"
	"holon/test/conform"
	"holon/test/expect"
)

func now() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func newStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(dir, "state"))
	expect.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// begin begins a turn as the server does.
func begin(t *testing.T, s *Store, dir, body string) (*Turn, *responses.Emitter, turns.Scope) {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(body))
	expect.NoError(t, err)
	resp := responses.NewResponse("resp_1", "scripted/x", now().Unix(), req)
	rec := turns.NewRecord("sess_1", "turn_1", &resp, req.Digest, "inst_1", "test", now())
	h := Header{ResponseID: resp.ID, SessionID: "sess_1", TurnID: "turn_1", TurnDir: filepath.Join(dir, "turn"),
		CreatedAt: now(), RequestDigest: req.Digest, Instance: "inst_1", Version: "test", Response: resp}
	turn, err := s.Begin(h.TurnDir, rec, h, nil, req.Input, now)
	expect.NoError(t, err)
	scope := turns.Scope{RuntimeID: s.RuntimeID(), SessionID: "sess_1", TurnID: "turn_1", Now: now}
	must(t, turn.Event(scope.TurnSubmitted(turns.Submitted{Source: "test", ResponseID: resp.ID}, false)))
	em, err := responses.NewEmitter(resp, turn.Sink())
	must(t, err)
	if lines, err := turn.Journal.Follow().Next(done(t)); err == nil {
		t.Errorf("events are visible before the turn is acknowledged: %s", lines)
	}
	must(t, turn.Acknowledge())
	return turn, em, scope
}

// done is a context that has ended: what would wait fails instead.
func done(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	expect.NoError(t, errors.Join(errs...))
}

// play is a turn with text, a tool call, a client's call and an answer.
func play(t *testing.T, turn *Turn, em *responses.Emitter, scope turns.Scope) {
	t.Helper()
	last := func() responses.Item { out := em.Response().Output; return out[len(out)-1] }
	must(t, turn.Event(scope.OfRequest(turns.ModelRequested, "mr_1", turns.Requested{Round: 1})))
	must(t, em.BeginReasoning(), em.Summary("think"), em.EndItem(), turn.Add(last()))
	must(t, em.BeginMessage(""), em.Text("I'll "), em.Text("look."), em.EndItem(), turn.Add(last()))
	must(t, turn.Event(scope.OfRequest(turns.ModelCompleted, "mr_1", turns.Sampled{})))
	call := &responses.ToolCall{ID: "tc_1", CallID: "call_1", Name: "ExecCommand", Arguments: `{"cmd":"ls"}`,
		Status: responses.ItemInProgress}
	must(t, turn.Started(call), turn.Event(scope.ToolStarted(call.ID, turns.Begun{ToolName: call.Name})))
	call.Status, call.Output, call.Result = responses.ItemCompleted, "a file",
		json.RawMessage(`{"tool_name":"ExecCommand"}`)
	must(t, turn.Event(scope.ToolResult(call.ID, turns.Result{ToolName: call.Name})), turn.Add(call))
	must(t, turn.Event(scope.OfRequest(turns.ModelRequested, "mr_2", turns.Requested{Round: 2, Attempt: 1})),
		turn.Event(scope.OfRequest(turns.ModelFailed, "mr_2", turns.AttemptFailure{})))
	must(t, turn.Event(scope.OfRequest(turns.ModelRequested, "mr_3", turns.Requested{Round: 2, Attempt: 2})))
	must(t, em.BeginFunctionCall("call_2", "ask"), em.Arguments(`{}`), em.EndItem(), turn.Add(last()))
	must(t, em.Text("There is <a file>."), em.Refusal("no more"), em.EndItem(), turn.Add(last()))
	must(t, em.Complete(responses.Usage{OutputTokens: 7}, now().Unix()))
}

// A turn is cut wherever a crash can cut it, each file at each line, in the
// middle of each line, and altogether. Whatever is left is settled, and settled
// the same when recovery itself is killed and repeated. The fast tier makes one of the three cuts at each line.
func TestSettleAtEveryCut(t *testing.T) {
	base := t.TempDir()
	s := newStore(t, base)
	turn, em, scope := begin(t, s, base, `{"input":"hi"}`)
	play(t, turn, em, scope)
	must(t, turn.Event(scope.Event(turns.TurnCompleted, turns.Completed{})),
		turn.trajectory.Finish(em.Response()))
	record, err := turn.Record().Encode() // as a message of the user would leave it; without one it is missing
	must(t, err, os.WriteFile(filepath.Join(turn.Dir, turns.RecordFile), record, 0o600))
	files := map[string]string{
		"trajectory": s.openPath("resp_1"), turns.JournalFile: filepath.Join(turn.Dir, turns.JournalFile),
		turns.EventsFile:  filepath.Join(turn.Dir, turns.EventsFile),
		turns.RuntimeFile: filepath.Join(turn.Dir, turns.RuntimeFile),
		turns.RecordFile:  filepath.Join(turn.Dir, turns.RecordFile),
	}
	whole := make(map[string][]byte)
	for name, path := range files {
		data, err := os.ReadFile(path)
		must(t, err)
		whole[name] = data
	}
	must(t, turn.trajectory.Close(), turn.Close())
	try := func(name, file string, content []byte) {
		t.Run(file+" "+name, func(t *testing.T) {
			for f, path := range files {
				data := whole[f]
				if f == file {
					data = content
				}
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				if data == nil {
					if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
					continue
				}
				must(t, os.WriteFile(path, data, 0o600))
			}
			must(t, os.WriteFile(filepath.Join(turn.Dir, durable.TempPrefix+"1"), nil, 0o600)) // half of a replacement
			_ = os.Remove(s.donePath("resp_1"))
			s.cache, s.catalog = newConversations(maxCached), newCatalog() // the files are changed behind its back
			checkSettled(t, s, turn.Dir, content, file == "trajectory")
			_, unsettled := os.Lstat(s.donePath("resp_1")) // it was never acknowledged
			if left, err := filepath.Glob(filepath.Join(turn.Dir, durable.TempPrefix+"*")); unsettled == nil &&
				len(left) > 0 || err != nil {
				t.Errorf("temporary files are left: %v (%v)", left, err)
			}
		})
	}
	for file, data := range whole {
		at := 0
		for i, line := range bytes.SplitAfter(data, []byte("\n")) {
			here := func(kind int) bool { return !testing.Short() || i%3 == kind }
			if here(0) {
				try(fmt.Sprintf("before line %d", i), file, data[:at])
			}
			if here(1) {
				try(fmt.Sprintf("within line %d", i), file, data[:at+len(line)/2])
			}
			if here(2) && len(line) > 0 { // blocks may come to the disk in any order
				try(fmt.Sprintf("zeros in line %d", i), file,
					slices.Concat(data[:at], make([]byte, len(line)-1), []byte("\n"), data[at+len(line):]))
			}
			at += len(line)
		}
		try("whole", file, data)
		if file != "trajectory" {
			try("missing", file, nil)
		}
	}
}

// settleAll settles every open turn of a store, and returns the ids of those that were acknowledged.
func settleAll(s *Store) (settled []string, err error) {
	ids, err := s.Open()
	for _, id := range ids {
		turnID, failed := s.SettleTurn(id, nil, now)
		if errors.Is(failed, ErrNotFound) {
			continue
		}
		settled, err = append(settled, turnID), errors.Join(err, failed)
	}
	return settled, err
}

// checkSettled settles twice and checks what is left on disk.
func checkSettled(t *testing.T, s *Store, dir string, content []byte, trajectory bool) {
	t.Helper()
	head, _, _ := bytes.Cut(content, []byte("\n"))
	acknowledged := !trajectory || json.Valid(head) && bytes.Contains(content, []byte("\n"))
	settled, err := settleAll(s)
	expect.NoError(t, err)
	if !acknowledged {
		if len(settled) != 0 {
			t.Errorf("settled %v", settled)
		}
		return
	}
	if !slices.Equal(settled, []string{"turn_1"}) {
		t.Fatalf("settled %v", settled)
	}
	stream1 := checkStream(t, dir)
	rec, err := ReadRecord(dir)
	if err != nil || !rec.Status.Terminal() {
		t.Fatalf("the record is %+v, %v", rec, err)
	}
	checkStored(t, s, rec)
	checkFacts(t, dir, rec)
	// Killed before the last step, recovery is repeated and changes nothing.
	must(t, os.Rename(s.donePath("resp_1"), s.openPath("resp_1")))
	if again, err := settleAll(s); err != nil || len(again) != 1 {
		t.Fatalf("again: %v, %v", again, err)
	}
	if !bytes.Equal(checkStream(t, dir), stream1) {
		t.Error("settling again changed the stream")
	}
}

// checkStored checks that what is stored of the settled response agrees with its record.
func checkStored(t *testing.T, s *Store, rec *turns.Record) {
	t.Helper()
	stored, err := s.Load("resp_1")
	if err != nil || stored.Response == nil || stored.Response.Status != rec.Status {
		t.Fatalf("stored is %+v, %v, the record says %s", stored, err, rec.Status)
	}
	if rec.Status != responses.StatusCompleted && (rec.Error == nil || rec.Error.Code != responses.CodeInterrupted) {
		t.Errorf("the record is %s, %+v, want %s", rec.Status, rec.Error, responses.CodeInterrupted)
	}
	items, _, err := s.Chain("resp_1")
	if err != nil || len(items) == 0 && len(stored.Input) > 0 {
		t.Errorf("the chain has %d items, %v", len(items), err)
	}
	for _, item := range items {
		call, ok := item.(*responses.ToolCall)
		if ok && call.Status == responses.ItemIncomplete && call.Output != responses.InterruptedCall {
			t.Errorf("the cut call shows %q, want %q", call.Output, responses.InterruptedCall)
		}
		if ok && call.Status == responses.ItemInProgress {
			t.Error("a call still runs")
		}
	}
}

func checkStream(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, turns.EventsFile))
	must(t, err)
	if err := conform.CheckStream(data, stream.NDJSON); err != nil { // exactly one terminal event, too
		t.Fatalf("%v\n%s", err, data)
	}
	return data
}

// checkFacts checks that runtime.ndjson has no gap and ends, once, as the record.
func checkFacts(t *testing.T, dir string, rec *turns.Record) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, turns.RuntimeFile))
	must(t, err)
	var ends []string
	n := int64(0)
	for line := range strings.Lines(string(data)) {
		ev, err := turns.DecodeRuntimeEvent([]byte(strings.TrimSuffix(line, "\n")))
		if n++; err != nil || ev.Sequence != n {
			t.Fatalf("fact %d has the number %d (%v)", n, ev.Sequence, err)
		}
		if ev.Type == turns.TurnCompleted || ev.Type == turns.TurnFailed {
			ends = append(ends, ev.Type)
			var end turns.Failure
			must(t, json.Unmarshal(ev.Payload, &end))
			settled := end.Phase == "recovery" // the others are the test's own
			if settled && (end.Rounds != rec.Rounds || end.ToolCalls != rec.ToolCalls.Total) {
				t.Errorf("%s has %d rounds and %d calls, the record %d and %d", ev.Type, end.Rounds, end.ToolCalls,
					rec.Rounds, rec.ToolCalls.Total)
			}
		}
	}
	want := turns.TurnFailed
	if rec.Status == responses.StatusCompleted {
		want = turns.TurnCompleted
	}
	if !slices.Equal(ends, []string{want}) {
		t.Errorf("the facts end with %v, the record is %s", ends, rec.Status)
	}
}

func TestACallInFlightIsShownAsInterrupted(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, _, scope := begin(t, s, dir, `{"input":"hi"}`)
	call := &responses.ToolCall{ID: "tc_1", CallID: "call_1", Name: "ExecCommand", Arguments: `{"cmd":"rm x"}`,
		Status: responses.ItemInProgress}
	must(t, turn.Event(scope.OfRequest(turns.ModelRequested, "mr_1", turns.Requested{Round: 1})), turn.Started(call))
	turn.Abort(errors.New("killed"))
	must(t, turn.Close())
	if settled, err := settleAll(s); err != nil || len(settled) != 1 {
		t.Fatalf("%v, %v", settled, err)
	}
	items, _, err := s.Chain("resp_1")
	must(t, err)
	got, ok := items[len(items)-1].(*responses.ToolCall)
	switch {
	case !ok:
		t.Errorf("the chain ends with %+v", items[len(items)-1])
	case got.Status != responses.ItemIncomplete:
		t.Errorf("got.Status = %q, want %q", got.Status, responses.ItemIncomplete)
	case got.Output != responses.InterruptedCall:
		t.Errorf("got.Output = %q, want %q", got.Output, responses.InterruptedCall)
	case got.Arguments != call.Arguments:
		t.Errorf("got.Arguments = %q, want %q", got.Arguments, call.Arguments)
	}
}

// A turn that broke off alive is settled with its own cause.
func TestSettleTurnWithItsCause(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, em, _ := begin(t, s, dir, `{"input":"hi"}`)
	must(t, em.Text("half a sen"))
	turn.Abort(errors.New("the disk is full"))
	must(t, turn.Close())
	cause := &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDiskFull,
		Message: "the disk is full"}
	id, err := s.SettleTurn("resp_1", cause, now)
	if err != nil || id != "turn_1" {
		t.Fatalf("%s, %v", id, err)
	}
	rec, err := ReadRecord(turn.Dir)
	if err != nil || rec.Error == nil || rec.Error.Code != responses.CodeDiskFull {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	checkFacts(t, turn.Dir, rec)
	checkStream(t, turn.Dir)
}

// What an attempt streamed before a kill counts, as an estimate.
func TestSettleCountsWhatWasStreamed(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
	must(t, turn.Event(scope.OfRequest(turns.ModelRequested, "mr_1", turns.Requested{Round: 1, EstimatedTokens: 30})),
		turn.Event(scope.ToolStarted("tc_1", turns.Begun{ToolName: "Run"})),
		turn.Event(scope.OfProcess(turns.ProcessStarted, "tc_1", "proc_1", turns.Process{Command: "make"})),
		em.Text("half a sentence."))
	turn.Abort(errors.New("killed"))
	must(t, turn.Close())
	later := func() time.Time { return now().Add(3 * time.Second) }
	if _, err := s.SettleTurn("resp_1", nil, later); err != nil {
		t.Fatal(err)
	}
	rec, err := ReadRecord(turn.Dir)
	must(t, err)
	if rec.Usage == nil || rec.Usage.OutputTokens != 4 || rec.Usage.InputTokens != 30 {
		t.Errorf("the usage is %+v, want 4 tokens of output for 16 bytes, and 30 of input", rec.Usage)
	}
	if tried := rec.ProviderAttempts.Attempts; len(tried) != 1 || tried[0].DurationMS != 3000 {
		t.Errorf("the attempts are %+v, want one of 3 s", tried)
	}
	facts, err := os.ReadFile(filepath.Join(turn.Dir, turns.RuntimeFile))
	must(t, err)
	for line := range strings.Lines(string(facts)) {
		if strings.Contains(line, `.failed"`) && !strings.Contains(line, `"duration_ms":3000`) {
			t.Errorf("what was cut off after 3 s lasted otherwise: %s", line)
		}
	}
	for _, want := range []string{`"type":"model.failed"`, `"type":"tool.failed"`, `"model_request_id":"mr_1"`,
		`"failure_category":"interrupted"`, `"failure_kind":"interrupted"`, `"type":"process.failed"`, `"input_tokens":30,"output_tokens":4`} {
		if !strings.Contains(string(facts), want) {
			t.Errorf("the facts have no %s: what was open does not end\n%s", want, facts)
		}
	}
	if p := rec.ProviderAttempts; p == nil || p.AggregatedTokenUsage == nil || !p.AggregatedTokenUsage.Estimated ||
		len(p.Attempts) != 1 {
		t.Errorf("the attempts are %+v, want their usage marked as an estimate", p)
	}
}

// A compaction that was cut off ends as what it began as.
func TestSettleCompaction(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, _, scope := begin(t, s, dir, `{"input":"hi"}`)
	must(t, turn.Event(scope.Event(turns.CompactionBegun, turns.CompactionStart{Trigger: turns.TriggerRemote, Round: 3})))
	turn.Abort(errors.New("killed"))
	must(t, turn.Close())
	if _, err := s.SettleTurn("resp_1", nil, now); err != nil {
		t.Fatal(err)
	}
	facts, err := os.ReadFile(filepath.Join(turn.Dir, turns.RuntimeFile))
	must(t, err)
	var got []turns.CompactionFailure
	for line := range bytes.Lines(facts) {
		ev, err := turns.DecodeRuntimeEvent(line)
		must(t, err)
		if ev.Type == turns.CompactionFailed {
			var p turns.CompactionFailure
			must(t, json.Unmarshal(ev.Payload, &p))
			got = append(got, p)
		}
	}
	want := []turns.CompactionFailure{{Trigger: turns.TriggerRemote, Round: 3, FailureCategory: "interrupted",
		Message: "the turn ended before it did"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ends of the compaction differ (-want +got):\n%s", diff)
	}
}

// The facts that settle a traced turn belong to its trace, as those before do.
func TestSettleTracedTurn(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, _, scope := begin(t, s, dir, `{"input":"hi"}`)
	scope.Trace = tracecontext.Root("turn_1")
	must(t, turn.Event(scope.TurnSubmitted(turns.Submitted{}, false)),
		turn.Event(scope.ToolStarted("tc_1", turns.Begun{ToolName: "Run"})))
	turn.Abort(errors.New("killed"))
	must(t, turn.Close())
	if _, err := s.SettleTurn("resp_1", nil, now); err != nil {
		t.Fatal(err)
	}
	facts, err := os.ReadFile(filepath.Join(turn.Dir, turns.RuntimeFile))
	must(t, err)
	spans := make(map[string]string) // by class
	for line := range bytes.Lines(facts) {
		ev, err := turns.DecodeRuntimeEvent(line)
		must(t, err)
		spans[ev.Type] = ev.Span().String()
	}
	scope.Trace.Sampled = true // facts do not say
	want := scope.Trace.Child("tc_1").String()
	if spans[turns.ToolFailed] != want || spans[turns.ToolStarted] != want ||
		spans[turns.TurnFailed] != scope.Trace.String() {
		t.Errorf("the spans of the facts are %v", spans)
	}
}

// The lock of a process that was killed can outlive it for a moment, in a child
// that has not begun its own program yet.
func TestLockThatLingers(t *testing.T) {
	dir := t.TempDir()
	held, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	expect.NoError(t, err)
	expect.NoError(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	freed := make(chan error, 1)
	time.AfterFunc(lingering/10, func() { freed <- held.Close() })
	s, err := OpenStore(dir)
	expect.NoError(t, err)
	expect.NoError(t, errors.Join(<-freed, s.Close()))
}

func TestStoreBelongsToOneProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // OpenStore waits for a lock
		s, err := OpenStore(dir)
		must(t, err)
		if _, err := OpenStore(dir); !errors.Is(err, errInUse) {
			t.Errorf("a second store is opened with %v, want %v", err, errInUse)
		}
		must(t, s.Close())
		again, err := OpenStore(dir)
		must(t, err)
		must(t, again.Close())
	})
}

func FuzzReadTrajectory(f *testing.F) {
	f.Add([]byte(`{"header":{"response_id":"r"}}` + "\n" + `{"input":{"type":"message","role":"user","content":"x"}}` +
		"\n"))
	f.Add([]byte(`{"header":{"response_id":"r"}}` + "\n" +
		`{"started":{"type":"holon:tool_call","id":"t","call_id":"c","name":"n"}}` + "\n{"))
	f.Add([]byte("{}\n\x00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x")
		must(t, os.WriteFile(path, data, 0o600))
		stored, head := &Stored{}, &Stored{headOnly: true}
		good, err := stored.read(path)
		switch {
		case err == nil && stored.Header.ResponseID == "":
			t.Error("a trajectory without a header")
		case good > int64(len(data))+1:
			t.Errorf("%d good bytes of %d", good, len(data))
		}
		if err != nil {
			return
		}
		if _, err := head.read(path); err != nil || head.Header.ResponseID != stored.Header.ResponseID ||
			head.size != stored.size {
			t.Errorf("the catalog sees it differently: %v", err)
		}
	})
}
