package agentd_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// A turn's directory is its own: neither a root, nor inside another's, nor around one.
func TestOutputDirectoriesAreApart(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("one", "rounds: [{text: hi}]")
	ask := func(id, dir string) answer {
		return h.post(fmt.Sprintf(`{"model":%q,"input":"x","holon":{"turn_id":%q,"output_dir":%q}}`, ref, id, dir))
	}
	if a := ask("turn_a", "mine/a"); a.status != http.StatusOK {
		t.Fatalf("the first turn is answered %d: %s", a.status, a.body)
	}
	h.post(fmt.Sprintf(`{"model":%q,"input":"x","holon":{"turn_id":"turn_b"}}`, ref)).response(t)
	out := h.cfg.Dirs.Output
	expect.NoError(t, os.Symlink(filepath.Join(out, "mine"), filepath.Join(out, "link")))
	for name, dir := range map[string]string{
		"the root": h.cfg.Dirs.Output, "the root, relative": ".", "all turns": "turns", "around one": "mine",
		"another's": "mine/a", "inside": "mine/a/b", "deep inside": "mine/a/b/c", "of an id": "turns/turn_b",
		"inside that of an id": "turns/turn_b/x", "behind a link": "link/a/b", "around one by a link": "link",
	} {
		if e := ask("turn_c", dir).failure(t); e.Param != "holon.output_dir" || e.Status() != http.StatusBadRequest {
			t.Errorf("%s, %s: got %+v, want holon.output_dir refused", name, dir, e)
		}
	}
	if a := ask("turn_c", "mine/c"); a.status != http.StatusOK {
		t.Errorf("a directory of its own is answered %d: %s", a.status, a.body)
	}
}

// Of turns that begin at once in one line of directories one gets its own.
func TestOutputDirectoriesAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("one", "rounds: [{text: hi}]")
	for n := range 20 {
		var all sync.WaitGroup
		status := make([]int, 4)
		dir := fmt.Sprintf("at%d", n)
		for i := range status {
			dir = filepath.Join(dir, "in")
			body := fmt.Sprintf(`{"model":%q,"input":"x","holon":{"turn_id":"turn_%d_%d","output_dir":%q}}`, ref, n, i,
				dir)
			all.Go(func() { status[i] = h.post(body).status })
		}
		all.Wait()
		taken := 0
		for _, s := range status {
			if s == http.StatusOK {
				taken++
			}
		}
		if taken != 1 {
			t.Errorf("%d turns began in directories inside each other, want 1: %v", taken, status)
		}
	}
}

// A response that is being made can be continued once it is over, and not before.
func TestPreviousIsRunning(t *testing.T) {
	t.Parallel()
	h := start(t)
	running := h.post(`{"model":"gate/x","input":"x","background":true}`).response(t)
	for _, path := range []string{"/responses", "/responses/input_tokens", "/responses/compact"} {
		body := fmt.Sprintf(`{"model":"gate/x","input":"y","previous_response_id":%q}`, running.ID)
		a := h.do(http.MethodPost, path, body)
		e := a.failure(t)
		if a.status != http.StatusConflict || e.Code != responses.CodePreviousInProgress ||
			e.Param != "previous_response_id" {
			t.Errorf("%s: got %d %+v, want 409 %s", path, a.status, e, responses.CodePreviousInProgress)
		}
	}
	close(h.gate.release)
	get(t, h.later(t.Context(), fmt.Sprintf(`{"model":"gate/x","input":"y","previous_response_id":%q}`, running.ID)))
}

// A model is asked only when somebody said something, or something is unfinished.
func TestRequestsWithoutInput(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("one", "rounds: [{text: hi and a good many other words}, {text: and more}]")
	short := h.post(fmt.Sprintf(`{"model":%q,"input":"x","max_output_tokens":1}`, ref)).response(t)
	if short.Status != responses.StatusIncomplete {
		t.Fatalf("the first response is %s, want it incomplete", short.Status)
	}
	whole := h.post(fmt.Sprintf(`{"model":%q,"input":"x"}`, ref)).response(t)
	for _, body := range []string{`{}`, `{"input":null}`, `{"input":[]}`, `{"input":""}`, `{"input":" \n"}`,
		`{"input":[{"role":"user","content":null}]}`, `{"input":[{"role":"user","content":[]}]}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":""}]}]}`,
		`{"input":[{"type":"web_search_call","id":"w"}]}`, `{"input":[{"type":"reasoning","id":"rs_1","summary":[]}]}`,
		fmt.Sprintf(`{"previous_response_id":%q,"input":[{"type":"acme:thing","id":"z"}]}`, whole.ID),
		fmt.Sprintf(`{"previous_response_id":%q}`, whole.ID)} {
		e := h.post(body).failure(t)
		if e.Code != responses.CodeMissingParameter || e.Param != "input" {
			t.Errorf("%s: got %+v, want input missing", body, e)
		}
	}
	if e := h.post(`{"input":"x","previous_response_id":""}`).failure(t); e.Param != "previous_response_id" {
		t.Errorf("an empty previous_response_id: got %+v", e)
	}
	for _, key := range []string{"session_id", "turn_id", "isolation", "workspace_dir", "input_dir", "output_dir"} {
		e := h.post(fmt.Sprintf(`{"model":%q,"input":"x","holon":{%q:""}}`, ref, key)).failure(t)
		if e.Param != "holon."+key || e.Code != responses.CodeInvalidValue {
			t.Errorf("an empty %s: got %+v, want it refused", key, e)
		}
	}
	for _, input := range []string{"", `"input":"",`, `"input":[{"role":"user","content":null}],`} {
		body := fmt.Sprintf(`{"model":%q,%s"previous_response_id":%q}`, ref, input, short.ID)
		on := h.post(body).response(t)
		if on.Status != responses.StatusCompleted || lastText(on) != "and more" {
			t.Errorf("with %s the incomplete response goes on as %s, %q: %+v", input, on.Status, lastText(on), on.Error)
		}
	}
}

// Tools that providers host are left out and named; of ours an unknown one is refused.
func TestForeignTools(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("one", "rounds: [{text: hi}]")
	h.post(fmt.Sprintf(`{"model":%q,"input":"x","holon":{"turn_id":"turn_a"},
		"tools":[{"type":"web_search"},{"type":"file_search"},{"type":"web_search"}]}`, ref)).response(t)
	if got := h.record("turn_a").IgnoredTools; fmt.Sprint(got) != "[web_search file_search]" {
		t.Errorf("the record lists the tools %q, want web_search and file_search", got)
	}
	if e := h.post(`{"input":"x","tools":[{"type":"holon:zzz"}]}`).failure(t); e.Param != "tools[0].type" {
		t.Errorf("a tool holon:zzz: got %+v, want tools[0].type refused", e)
	}
}

// lastText is the text of the last message of a response.
func lastText(r *responses.Response) string {
	m, _ := r.Output[len(r.Output)-1].(*responses.Message)
	if m == nil {
		return ""
	}
	return m.Text()
}
