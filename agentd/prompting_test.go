package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// listener notes what models are told.
type listener struct {
	inner agentd.Models

	mu    sync.Mutex
	asked []model.Request // with a copy of the input
}

// Resolve implements agentd.Models.
func (l *listener) Resolve(ref string, _ ...string) (model.Choice, error) {
	m, err := l.inner.Resolve(ref)
	m.Transport = heard{m.Transport, l}
	return m, err
}

// Models implements agentd.Models.
func (l *listener) Models() []string { return l.inner.Models() }

type heard struct {
	model.Transport
	by *listener
}

// Stream implements model.Transport.
func (h heard) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	h.by.mu.Lock()
	told := req
	told.Input = slices.Clone(req.Input)
	h.by.asked = append(h.by.asked, told)
	h.by.mu.Unlock()
	return h.Transport.Stream(ctx, req)
}

// listen makes a server's models be noted by l, and gives it the agent's home.
func listen(l *listener, home string) func(*config.Config, *agentd.Parts) {
	return func(cfg *config.Config, parts *agentd.Parts) {
		l.inner, parts.Models = parts.Models, l
		cfg.Agent.Home = home
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

const work = `
turns:
  - rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: echo one}}]}, {text: One.}]
  - rounds: [{text: Asking., calls: [{tool: ask, arguments: {q: 1}}]}, {text: Two.}]
  - rounds: [{text: Three.}]
`

// grows checks that each request begins with the one before, and returns the items
// of the last one as JSON.
func (l *listener) grows(t *testing.T) (before []string) {
	t.Helper()
	for i, req := range l.asked {
		if req.Instructions != l.asked[0].Instructions || req.PromptCacheKey == "" ||
			req.PromptCacheKey != l.asked[0].PromptCacheKey {
			t.Errorf("%d: %+v, %+v", i, req, l)
		}
		var now []string
		for _, item := range req.Input {
			line, err := json.Marshal(item)
			expect.NoError(t, err)
			now = append(now, string(line))
		}
		if len(now) <= len(before) && i > 0 || !slices.Equal(before, now[:len(before)]) {
			t.Fatalf("request %d begins otherwise than the one before:\n%s", i, cmp.Diff(before, now))
		}
		before = now
	}
	return before
}

// A request to a model begins with all that the model was told before, through changes
// between turns and through a restart.
func TestWhatAModelIsToldOnlyGrows(t *testing.T) {
	t.Parallel()
	told := &listener{}
	home := t.TempDir()
	put(t, home+"/AGENTS.md", "The agent is kind.")
	h := start(t, listen(told, home))
	tree := h.cfg.Dirs.Workspace
	put(t, tree+"/AGENTS.md", "Use tabs.")
	ref := h.scenario("work", work)
	previous := ""
	post := func(input, more string) *responses.Response {
		t.Helper()
		body := `{"model":"` + ref + `","input":` + input + more
		if previous != "" {
			body += `,"previous_response_id":"` + previous + `"`
		}
		resp := h.post(body + "}").response(t)
		if resp.Status != responses.StatusCompleted {
			t.Fatalf("%s: %+v", resp.Status, resp.Error)
		}
		previous = resp.ID
		return resp
	}
	const ask = `,"tools":[{"type":"function","name":"ask"}]`
	post(`"go"`, ask+`,"instructions":"Be brief."`)
	put(t, tree+"/AGENTS.md", "Use spaces.")
	asks := post(`"go on"`, ask)
	callID := asks.Output[len(asks.Output)-1].(*responses.FunctionCall).CallID
	put(t, tree+"/.agents/skills/lint/SKILL.md", "---\nname: lint\ndescription: Lints.\n---\n")
	expect.NoError(t, os.Remove(tree+"/AGENTS.md"))
	post(`[{"type":"function_call_output","call_id":"`+callID+`","output":"yes"}]`, ask)
	expect.NoError(t, h.stop())
	h = startIn(t, h.dir, listen(told, home))
	post(`"the end"`, ask+`,"instructions":"Be long."`)

	before := told.grows(t)
	for _, part := range []string{"The agent is kind.", "Use tabs.", "Be brief.", tree} {
		if !strings.Contains(told.asked[0].Instructions, part) {
			t.Errorf("%q is missing at the beginning", part)
		}
	}
	all := strings.Join(before, "\n")
	for _, part := range []string{"Use spaces.", "Lints.", "the instructions of the workspace no longer holds",
		"the instructions of the request no longer holds", "Be long."} {
		if strings.Count(all, part) != 1 {
			t.Errorf("%q is told %d times", part, strings.Count(all, part))
		}
	}
	// An output stays right behind its call.
	kinds := make([]string, 0, len(before))
	for _, item := range told.asked[len(told.asked)-1].Input {
		kinds = append(kinds, item.ItemType())
	}
	if i := slices.Index(kinds, responses.ItemFunctionCall); i < 0 || kinds[i+1] != responses.ItemFunctionCallOutput {
		t.Errorf("the conversation is %v", kinds)
	}
	// None of it is the client's input.
	if list := h.do(http.MethodGet, "/responses/"+previous+"/input_items", "").body; strings.Contains(string(list),
		"ctx_") || !strings.Contains(string(list), "the end") {
		t.Errorf("the input is %s", list)
	}
}

// facts returns the runtime events of a turn.
func (h *harness) facts(turnID, class string) (payloads []string) {
	h.t.Helper()
	for _, ev := range h.runtimeEvents(turnID, "?follow=true") {
		if ev.Type == class {
			payloads = append(payloads, string(ev.Payload))
		}
	}
	return payloads
}

// inUse returns what a turn's context says of skills.
func (h *harness) inUse(turnID string) []string {
	h.t.Helper()
	list := h.facts(turnID, turns.ContextResolved)
	if len(list) != 1 {
		h.t.Fatalf("%d contexts", len(list))
	}
	var c turns.Context
	expect.NoError(h.t, json.Unmarshal([]byte(list[0]), &c))
	return c.ActiveSkills
}

func TestSkillsOfASession(t *testing.T) {
	t.Parallel()
	told := &listener{}
	skill := func(h *harness) string { return h.cfg.Dirs.Skills + "/pdf" }
	h := start(t, func(cfg *config.Config, parts *agentd.Parts) {
		put(t, cfg.Dirs.Skills+"/pdf/SKILL.md", "---\nname: pdf\ndescription: Fills in forms.\n---\nBODY\n")
		put(t, cfg.Dirs.Skills+"/pdf/scripts/fill.sh", "exit 0\n")
		put(t, cfg.Dirs.Workspace+"/.claude/skills/lint/SKILL.md", "---\nname: lint\ndescription: Lints: all.\n---\n")
		put(t, cfg.Dirs.Workspace+"/.claude/skills/odd/SKILL.md", "no front matter\n")
		listen(told, "")(cfg, parts)
	})
	if diff := cmp.Diff([]string{"pdf", "lint"}, h.health().Skills); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	ref := h.scenario("use", fmt.Sprintf(`
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'cat %[1]s/absent %[1]s/SKILL.md'}}, {tool: ExecCommand, `+
		`arguments: {cmd: 'ls %[1]s .claude/skills/lint'}}]
      - text: Nothing used.
`, skill(h)))
	run := func(model, turn string) {
		t.Helper()
		if resp := h.post(fmt.Sprintf(`{"model":%q,"input":"go","holon":{"session_id":"sess_a","turn_id":%q}}`, model,
			turn)).response(t); resp.Status != responses.StatusCompleted {
			t.Fatalf("%s: %+v", resp.Status, resp.Error)
		}
	}
	run(ref, "turn_1")
	expect.Contains(t, "warnings", fmt.Sprint(h.facts("turn_1", "runtime.warning")), "odd/SKILL.md")
	if got := h.facts("turn_1", "holon.skill.activated"); got != nil {
		t.Errorf("what failed or was only listed became active: %v", got)
	}
	used := h.scenario("used", fmt.Sprintf(`
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: 'cat %[1]s/SKILL.md'}}, {tool: ExecCommand, arguments: {cmd: 'sh `+
		`scripts/fill.sh', workdir: .}}, {tool: ExecCommand, arguments: {cmd: 'cd %[1]s && sh scripts/fill.sh'}}]
  - text: Used.
`, skill(h)))
	run(used, "turn_2")
	var reasons []string
	for _, payload := range h.facts("turn_2", "holon.skill.activated") {
		var p turns.Skill
		expect.NoError(t, json.Unmarshal([]byte(payload), &p))
		if p.SkillID != "agent/pdf" || p.EntrypointPath != skill(h)+"/SKILL.md" ||
			!strings.HasPrefix(p.Digest, "sha256:") {
			t.Errorf("%+v", p)
		}
		reasons = append(reasons, p.LoadReason+" "+strings.TrimPrefix(p.Path, skill(h)))
	}
	if diff := cmp.Diff([]string{"read_skill_md /SKILL.md", "run_skill_script /scripts/fill.sh"}, reasons); diff != "" {
		t.Errorf("activations (-want +got):\n%s", diff)
	}
	if got := h.inUse("turn_2"); len(got) != 0 {
		t.Errorf("before its end the turn's session had %v", got)
	}
	run(ref, "turn_3")
	if diff := cmp.Diff([]string{"agent/pdf session_active"}, h.inUse("turn_3")); diff != "" {
		t.Error(diff)
	}
	expect.NoError(t, h.stop())
	h = startIn(t, h.dir, listen(told, ""))
	run(ref, "turn_4")
	if diff := cmp.Diff([]string{"agent/pdf restored"}, h.inUse("turn_4")); diff != "" {
		t.Error(diff)
	}
	last := told.asked[len(told.asked)-1].Instructions
	if !strings.Contains(last, "Skills in use in this session") || strings.Contains(last, "BODY") ||
		!strings.Contains(last, "Fills in forms.") {
		t.Errorf("%+v", last)
	}
	if first := told.asked[0].Instructions; strings.Contains(first, "Skills in use") {
		t.Error("a new session has skills in use")
	}
}

// A turn that does not complete leaves its session as it was.
func TestSkillsOfAFailedTurn(t *testing.T) {
	t.Parallel()
	h := start(t, func(cfg *config.Config, parts *agentd.Parts) {
		put(t, cfg.Dirs.Skills+"/pdf/SKILL.md", "---\nname: pdf\ndescription: Fills in forms.\n---\nBODY\n")
		listen(&listener{}, "")(cfg, parts)
	})
	fails := h.scenario("fails", fmt.Sprintf("rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'cat "+
		"%s/pdf/SKILL.md'}}]\n  - error: {kind: protocol, message: broken}\n", h.cfg.Dirs.Skills))
	h.post(fmt.Sprintf(`{"model":%q,"input":"go","holon":{"session_id":"sess_b","turn_id":"turn_5"}}`, fails))
	next := h.post(fmt.Sprintf(`{"model":%q,"input":"go","holon":{"session_id":"sess_b","turn_id":"turn_6"}}`,
		h.scenario("hello", hello))).response(t)
	expect.Equal(t, "the next turn", next.Status, responses.StatusCompleted)
	if got := h.facts("turn_5", "holon.skill.activated"); len(got) != 1 {
		t.Errorf("the turn that fails activates %v, want one skill", got)
	}
	if got := h.inUse("turn_6"); len(got) != 0 {
		t.Errorf("the next turn has %v in use, want none", got)
	}
}

// The prompt of a turn that no other turn can follow says so.
func TestOnceSaysThatItIsAll(t *testing.T) {
	t.Parallel()
	told := &listener{}
	h := start(t, listen(told, ""))
	ref := h.scenario("hello", hello)
	expect.NoError(t, h.stop())
	parts := h.parts(discard())
	listen(told, "")(&h.cfg, &parts)
	h.cfg.Server.Socket, h.cfg.Server.Listen = "", ""
	server, err := agentd.Open(h.cfg, parts)
	expect.NoError(t, err)
	defer server.Close()
	req, err := responses.DecodeRequest([]byte(`{"model":"` + ref + `","input":"hi"}`))
	expect.NoError(t, err)
	if _, err := server.Once(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if len(told.asked) != 1 || !strings.Contains(told.asked[0].Instructions, "This turn is all there is") {
		t.Errorf("%+v", told.asked)
	}
}
