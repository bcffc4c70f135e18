package scripted_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/agentd/model"
	"holon/agentd/model/scripted"
	"holon/responses"
	"holon/test/expect"
)

func TestInvalidScenarios(t *testing.T) {
	deep := "rounds: [{calls: [{tool: x, arguments: {a: " + strings.Repeat("[", 80) + strings.Repeat("]", 80) + "}}]}]"
	bomb := "rounds:\n- calls:\n  - tool: x\n    arguments:\n      a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i, c := range []string{"1", "2", "3", "4", "5", "6"} {
		prev := string(rune('0' + i))
		bomb += "      a" + c + ": &a" + c + " [" + strings.TrimSuffix(strings.Repeat("*a"+prev+",", 10), ",") + "]\n"
	}
	tests := []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"no rounds", "name: x", "rounds: a scenario needs at least one round"},
		{"unknown key", "rounds:\n- text: x\n  txet: y\n", "line 3: the key \"txet\" is unknown"},
		{"unknown key in a condition", "rounds:\n- text: x\n  expect:\n    exit: 0\n", "line 4: the key \"exit\" is unknown"},
		{"wrong type", "rounds:\n- text: x\n  chunk_size: many\n", "line 3: \"many\" is a text, where a number is wanted"},
		{"no YAML", "rounds: [", "line 1"},
		{"two documents", "rounds: [{text: x}]\n---\nrounds: []\n", "more than one document"},
		{"both lists", "rounds: [{text: x}]\nturns: [{rounds: [{text: x}]}]\n", "rounds and turns"},
		{"empty turn", "turns: [{}]", "turns[0].rounds: a turn needs at least one round"},
		{"empty round", "rounds: [{id: a}]", "rounds[0]: the round does nothing"},
		{"twice the same id", "rounds: [{id: a, text: x}, {id: a, text: x}]",
			"rounds[1].id: there are two rounds called a"},
		{"bad id", "rounds: [{id: a b, text: x}]", "rounds[0].id"},
		{"goto nowhere", "rounds: [{calls: [{tool: x}], goto: b}]",
			`rounds[0].goto: there is no round with the id "b"`},
		{"goto after the end", "rounds: [{id: a, text: x, goto: a}]",
			"rounds[0].goto: a round without calls ends the turn"},
		{"times alone", "rounds: [{text: x, times: 2}]", "rounds[0].times"},
		{"cases and a step", "rounds: [{text: x, cases: [{text: y}]}]",
			"rounds[0]: a round with cases does nothing itself"},
		{"unreachable case", "rounds: [{cases: [{text: y}, {text: z}]}]",
			"rounds[0].cases[0]: only the last case may lack when"},
		{"bad expression", "rounds: [{text: x, expect: {matches: '('}}]", "rounds[0].expect.matches[0]"},
		{"bad expression for the user", "rounds: [{cases: [{when: {user: {matches: '('}}, text: x}]}]",
			"rounds[0].cases[0].when.user.matches[0]"},
		{"bad exit status", "rounds:\n- text: x\n  expect: {exit_status: never}\n",
			"line 3: exit_status must be a number"},
		{"bad status", "rounds: [{text: x, expect: {status: fine}}]",
			"rounds[0].expect.status: \"fine\" is not one of success or error"},
		{"text and chunks", "rounds: [{text: x, chunks: [y]}]", "rounds[0].chunks"},
		{"bad stop", "rounds: [{text: x, stop: now}]", "rounds[0].stop"},
		{"negative delay", "rounds: [{text: x, delay: -1s}]", "rounds[0].delay"},
		{"delay without unit", "rounds: [{text: x, delay: 50}]", "line 1: \"50\" is a number, where a time such as 30s is wanted"},
		{"misspelt placeholder", "rounds: [{text: 'x {{last_ouput}}'}]",
			`rounds[0].text: "{{last_ouput}}" is not a placeholder`},
		{"misspelt placeholder in arguments", "rounds: [{calls: [{tool: x, arguments: {a: '{{user}}'}}]}]",
			"rounds[0].calls[0].arguments"},
		{"call without tool", "rounds: [{calls: [{arguments: {}}]}]", "rounds[0].calls[0].tool"},
		{"arguments and raw", "rounds: [{calls: [{tool: x, arguments: {}, raw: y}]}]", "rounds[0].calls[0].raw"},
		{"arguments are no mapping", "rounds: [{calls: [{tool: x, arguments: [1]}]}]",
			"rounds[0].calls[0].arguments: line 1: must be a mapping"},
		{"a key twice", "rounds: [{calls: [{tool: x, arguments: {a: 1, a: 2}}]}]", `the key "a" is repeated`},
		{"no number of JSON", "rounds: [{calls: [{tool: x, arguments: {a: .nan}}]}]", "JSON has no"},
		{"binary", "rounds: [{calls: [{tool: x, arguments: {a: !!binary aGk=}}]}]", "has no form in JSON"},
		{"too deep", deep, "too large or nested too deeply"},
		{"alias bomb", bomb, "too large or nested too deeply"},
		{"the same call id twice", "rounds: [{calls: [{tool: x, id: a}, {tool: x, id: a}]}]", "rounds[0].calls[1].id"},
		{"failure of no kind", "rounds: [{error: {message: x}}]", "rounds[0].error: needs a kind or an HTTP status"},
		{"failure of an unknown kind", "rounds: [{error: {kind: odd}}]", "rounds[0].error.kind"},
		{"failure that is none", "rounds: [{error: {status: 200}}]", "rounds[0].error.status"},
		{"endless repeat", "rounds: [{repeat: {text: x, count: 100000000}}]", "rounds[0].repeat.count"},
		{"summary with calls", "rounds: [{text: x}]\nsummary: {calls: [{tool: f}]}", "summary: no tool"},
		{"summary of nothing", "rounds: [{text: x}]\nsummary: {}", "summary: the round does nothing"},
		{"after_last_turn", "after_last_turn: stop\nrounds: [{text: x}]", "after_last_turn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr, dir := open(t, map[string]string{"x.yaml": tt.text})
			e := check(t, tr, "x.yaml")
			expect.Equal(t, "e.Code", e.Code, responses.CodeScenarioInvalid)
			expect.Equal(t, "e.Param", e.Param, "model")
			expect.Contains(t, "e.Message", e.Message, filepath.Join(dir, "x.yaml"))
			expect.Contains(t, "says", e.Message, tt.want)
			switch {
			case strings.Contains(e.Error(), "scripted."):
				t.Errorf(`is not fit for a user: e.Error() = %q, want it without "scripted."`, e.Error())
			case strings.Contains(e.Error(), "\n"):
				t.Errorf("is not fit for a user: e.Error() = %q, want it without %q", e.Error(), "\n")
			case len(e.Error()) > 1000:
				t.Errorf("is not fit for a user: len(e.Error()) = %d (%q), want at most 1000", len(e.Error()),
					e.Error())
			}
			// A turn that was accepted before the file changed learns the same.
			_, err := collect(t.Context(), tr, model.Request{Model: "x.yaml"})
			m, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Fatalf("Stream: %#v", err)
			}
			expect.Equal(t, "Stream: m.Code", m.Code, responses.CodeScenarioInvalid)
			expect.Equal(t, "Stream: m.Kind", m.Kind, model.KindScenario)
		})
	}
}

func check(t *testing.T, tr *scripted.Transport, name string) *responses.Error {
	t.Helper()
	e, ok := errors.AsType[*responses.Error](tr.Check(name))
	if !ok {
		t.Fatalf("Check(%q) gives no *responses.Error", name)
	}
	return e
}

func TestFiles(t *testing.T) {
	const fine = "rounds: [{text: fine}]"
	tr, dir := open(t, map[string]string{"a.yaml": fine, "sub/b.yml": fine, "c": fine,
		"d": "a program", "d.yml": fine, "e/x": "", "e.yaml": fine, "f.v2.yaml": fine,
		"big.yaml": fine + "\n#" + strings.Repeat("x", 1<<20)})
	outside := filepath.Join(t.TempDir(), "o.yaml")
	expect.NoError(t, os.WriteFile(outside, []byte(fine), 0o600))
	expect.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.yaml")))
	expect.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	for _, name := range []string{"demo", "a", "a.yaml", "./a.yaml", "sub/b", "sub/b.yml", "c", "d", "e", "f.v2",
		filepath.Join(dir, "a.yaml"), dir + "/sub/../a"} {
		if err := tr.Check(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, code := range map[string]string{
		"":                       responses.CodeScenarioNotFound,
		"absent":                 responses.CodeScenarioNotFound,
		"sub":                    responses.CodeScenarioNotFound,
		"../o.yaml":              responses.CodeScenarioNotFound,
		"a\x00.yaml":             responses.CodeScenarioNotFound,
		strings.Repeat("x", 300): responses.CodeScenarioInvalid, // longer than a file's name can be
		outside:                  responses.CodeScenarioNotFound,
		"/etc/passwd":            responses.CodeScenarioNotFound,
		"d/x":                    responses.CodeScenarioNotFound,
		"link.yaml":              responses.CodeScenarioInvalid,
		"pipe.yaml":              responses.CodeScenarioInvalid,
		"big.yaml":               responses.CodeScenarioInvalid,
	} {
		e := check(t, tr, name)
		if e.Code != code {
			t.Errorf("%.40q: %v", name, e)
		}
		if code == responses.CodeScenarioNotFound && name == "absent" && !strings.Contains(e.Error(), dir) {
			t.Errorf("%.40q: the directory is not named: %v", name, e)
		}
	}
	named, err := scripted.New(scripted.Options{Files: []string{outside}})
	expect.NoError(t, err)
	if err := named.Check(outside); err != nil {
		t.Errorf("a file that the operator named: %v", err)
	}
	if err := named.Check(filepath.Dir(outside) + "/other.yaml"); err == nil {
		t.Error("a neighbour of the operator's file may be played")
	}
	hosted, err := scripted.New(scripted.Options{Host: outside})
	expect.NoError(t, err)
	if err := hosted.Check("/of/the/user.yaml"); err != nil {
		t.Errorf("the file of the host under the user's name: %v", err)
	}
	if _, err := scripted.New(scripted.Options{Files: []string{"rel.yaml"}}); err == nil {
		t.Error("a relative operator's file is taken")
	}
}

func TestChangedFileIsReadAgain(t *testing.T) {
	tr, dir := open(t, map[string]string{"a.yaml": "rounds: [{text: one}]"})
	for _, want := range []string{"one", "three"} {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("rounds: [{text: "+want+"}]"), 0o600))
		events, err := collect(t.Context(), tr, model.Request{Model: "a"})
		if err != nil || summarise(events).Text != want {
			t.Errorf("%+v %v, want %s", events, err, want)
		}
	}
}

// A file of any content is refused with a bounded line or played without a
// panic, and alike each time.
func FuzzScenario(f *testing.F) {
	f.Add(branching)
	f.Add("rounds: [{text: x}]")
	f.Add("turns: [{rounds: [{calls: [{tool: x, arguments: {a: &a [1], b: *a}}], goto: y, id: y}]}]")
	f.Add("rounds: [{reasoning: a, refusal: b, chunks: [c], usage: {input_tokens: 1}, stop: end}]")
	f.Add("rounds:\n- &a {text: x}\n- *a\n")
	f.Add("rounds: [{<<: {text: x}}]")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "delay") || strings.Contains(text, "gap") || strings.Contains(text, "count") {
			t.Skip("would wait")
		}
		tr, _ := open(t, map[string]string{"x.yaml": text})
		if err := tr.Check("x.yaml"); err != nil {
			if len(err.Error()) > 2000 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, input := range [][]responses.Item{nil, {user("x"), ran("call_t1_r1_1", 1, "FAIL a")},
			{user("x"), said("y"), user("z")}} {
			first, err1 := collect(t.Context(), tr, model.Request{Model: "x.yaml", Input: input})
			second, err2 := collect(t.Context(), tr, model.Request{Model: "x.yaml", Input: input})
			if len(first) != len(second) || (err1 == nil) != (err2 == nil) {
				t.Fatalf("not the same twice: %d and %d events, %v and %v", len(first), len(second), err1, err2)
			}
			if err1 == nil && first[len(first)-1].Kind != model.Done {
				t.Fatal("an answer without end")
			}
		}
	})
}
