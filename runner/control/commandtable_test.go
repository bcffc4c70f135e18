package control_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
)

// reopen ends the process, as far as the control plane knows of it, and begins another one on the same ledger, with
// which something may be done between.
func (r *rig) reopen(between ...func(path string)) {
	r.t.Helper()
	r.stop()
	expect.NoError(r.t, r.store.Close())
	path := filepath.Join(filepath.Dir(filepath.Dir(r.socket)), "ledger.db")
	for _, do := range between {
		do(path)
	}
	store, err := sqlite.Open(r.t.Context(), sqlite.Options{Path: path})
	expect.NoError(r.t, err)
	now := func() time.Time { return time.UnixMilli(r.clock.Add(1)).UTC() }
	r.store, r.machine = store, scheduler.New(store, scheduler.Options{Owner: "inst_next", Now: now})
	r.host.machine = r.machine
	r.server = control.New(control.Options{Store: store, Steps: r.machine, Host: r.host,
		Log:   slog.New(slog.DiscardHandler),
		Facts: view.Facts{Home: func(id string) string { return "/home/agents/" + id }}})
	r.run(tcp())
	r.t.Cleanup(func() {
		r.stop()
		if err := store.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

// newest is the number of the last event of the agent main.
func (r *rig) newest() (seq int64) {
	r.t.Helper()
	r.look(func(v ledger.View) error {
		page, err := v.Events("main", ledger.EventQuery{Limit: 1, Descending: true})
		seq = page.Newest
		return err
	})
	return seq
}

func (r *rig) look(fn func(ledger.View) error) {
	r.t.Helper()
	expect.NoError(r.t, r.store.View(r.t.Context(), fn))
}

// event is an event of the agent main.
func (r *rig) event(seq int64) (e ledger.Event) {
	r.t.Helper()
	r.look(func(v ledger.View) error {
		page, err := v.Events("main", ledger.EventQuery{After: seq - 1, Limit: 1})
		if len(page.Events) == 1 {
			e = page.Events[0]
		}
		return err
	})
	return e
}

func (r *rig) class(seq int64) string { r.t.Helper(); return r.event(seq).Class }

func (r *rig) payload(seq int64) string { r.t.Helper(); return string(r.event(seq).Data) }

// carried is a command that is carried out: what there is before it, and what must be so after it.
type carried struct {
	prepare func(r *rig) (fields string)
	effect  func(r *rig, a wire.CommandAnswer)
	reads   bool
}

func none(*rig) string { return "" }

// exported checks that a result refers to a document of evidence.
func exported(r *rig, a wire.CommandAnswer) {
	var e wire.Exported
	if err := json.Unmarshal(a.Result, &e); err != nil || e.EventCount == 0 {
		r.t.Fatalf("the export is %+v (%v)", e, err)
	}
	doc := r.ask(r.described(), get(e.Ref))
	if doc.status != 200 || !strings.Contains(doc.body, e.EventsDigest) {
		r.t.Errorf("%s is answered %d, want a document with the digest %s", e.Ref, doc.status, e.EventsDigest)
	}
	expect.Equal(r.t, "the last event is", r.class(a.AppliedThroughSequence), "evidence.changed")
}

// work makes a work item and returns its id.
func (r *rig) work() string {
	r.t.Helper()
	w, _, err := r.machine.CreateWork(r.t.Context(), scheduler.NewWork{AgentID: "main", Key: "k", Objective: "Look."})
	expect.NoError(r.t, err)
	return w.ID
}

// supported are the commands that are carried out.
func supported() map[string]carried {
	return map[string]carried{
		"submit_turn": {
			prepare: func(*rig) string { return `,"text":"Look.","priority":"next"` },
			effect: func(r *rig, a wire.CommandAnswer) {
				var s wire.Submitted
				_ = json.Unmarshal(a.Result, &s)
				r.look(func(v ledger.View) error {
					queued, err := v.Queued("main", 10)
					if len(queued) != 1 || queued[0].MessageID != s.QueuedTurnID || queued[0].Priority != "next" {
						r.t.Errorf("the queue is %+v, want %s with priority next", queued, s.QueuedTurnID)
					}
					return err
				})
			}},
		"interrupt_turn": {
			prepare: func(r *rig) string {
				return fmt.Sprintf(
					`,"session_id":"sess_main","thread_id":"thread_main","turn_id":%q,"reason":"no more"`,
					r.running(),
				)
			},
			effect: func(r *rig, told wire.CommandAnswer) {
				r.look(func(v ledger.View) error {
					a, ok, err := v.OpenAttempt("main")
					if !ok || a.AbortedBy == "" {
						r.t.Errorf("the attempt is %+v, want it aborted", a)
					}
					return err
				})
				expect.Contains(r.t, "the last event", r.payload(told.AppliedThroughSequence), `"reason":"no more"`)
			}},
		"resume_thread": {
			prepare: func(r *rig) string { r.pause(); return "" },
			effect: func(r *rig, a wire.CommandAnswer) {
				r.stopped(false)
				expect.Equal(r.t, "the last event is", r.class(a.AppliedThroughSequence), "thread.updated")
				expect.Equal(r.t.(*testing.T), "result", string(a.Result), `{"outcome":"resumed"}`)
			}},
		"remove_queued_turn": {
			prepare: func(r *rig) string {
				r.say("main", "Look.", "")
				return fmt.Sprintf(`,"queued_turn_id":%q`, r.head())
			},
			effect: func(r *rig, a wire.CommandAnswer) {
				var e ledger.Entry
				_ = json.Unmarshal(a.Result, &e)
				r.look(func(v ledger.View) error {
					now, err := v.Entry(e.MessageID)
					expect.Equal(r.t, "the entry is", now.Status, ledger.Dropped)
					return err
				})
			}},
		"promote_queued_turn": {
			prepare: func(r *rig) string {
				r.say("main", "Look.", "")
				r.say("main", "Look here first.", "")
				var second string
				r.look(func(v ledger.View) error {
					queue, err := v.Queued("main", 0)
					second = queue[len(queue)-1].MessageID
					return err
				})
				return fmt.Sprintf(`,"queued_turn_id":%q`, second)
			},
			effect: func(r *rig, a wire.CommandAnswer) {
				var e ledger.Entry
				_ = json.Unmarshal(a.Result, &e)
				expect.Equal(r.t, "the head of the queue", r.head(), e.MessageID)
				expect.Equal(r.t, "its priority", e.Priority, ledger.Next)
			}},
		"respond_action": {
			prepare: func(r *rig) string {
				w, _, err := r.machine.CreateWork(r.t.Context(), scheduler.NewWork{AgentID: "main", Key: "ask",
					Objective: "release", PlanStatus: ledger.PlanNeedsInput})
				expect.NoError(r.t, err)
				return fmt.Sprintf(`,"action_id":"action_%s","text":"Release it."`, w.ID)
			},
			effect: func(r *rig, a wire.CommandAnswer) {
				r.look(func(v ledger.View) error {
					open, err := v.OpenWork("main")
					for _, w := range open {
						expect.Equal(r.t, "the plan is", w.PlanStatus, ledger.PlanReady)
					}
					return err
				})
				for seq := r.newest(); ; seq-- {
					if r.class(seq) == "action.resolved" {
						expect.Contains(r.t, "who resolved it", r.payload(seq), `"resolved_by":"operator","via":"respond_action"`)
						break
					}
				}
			}},
		"create_task": {
			prepare: func(*rig) string { return `,"objective":"Look."` },
			effect:  tells("accepted", "Look.")},
		"update_task": {
			prepare: func(r *rig) string { return fmt.Sprintf(`,"objective":"Look twice.","task_id":%q`, r.work()) },
			effect:  tells("accepted", "Look twice.")},
		"start_task": {
			prepare: func(r *rig) string { return fmt.Sprintf(`,"task_id":%q`, r.work()) },
			effect:  tells("running", "Look.")},
		"complete_task": {
			prepare: func(r *rig) string { return fmt.Sprintf(`,"task_id":%q`, r.work()) },
			effect:  tells("completed", "Look.")},
		"cancel_task": {
			prepare: func(r *rig) string {
				t, _, err := r.machine.CreateTask(r.t.Context(), scheduler.NewTask{AgentID: "main", Key: "k",
					Start: tasks.Start{Cmd: "sleep 9"}})
				expect.NoError(r.t, err)
				return fmt.Sprintf(`,"task_id":%q`, t.ID)
			},
			effect: tells("failed", "sleep 9")},
		"export_evidence": {prepare: none, effect: exported},
		"get_capabilities": {prepare: none, reads: true, effect: func(r *rig, a wire.CommandAnswer) {
			if !strings.Contains(string(a.Result), `"submit_turn"`) {
				r.t.Errorf("the result is %s, want submit_turn in it", a.Result)
			}
		}},
	}
}

// tells checks the task that a command answers with.
func tells(status, objective string) func(*rig, wire.CommandAnswer) {
	return func(r *rig, a wire.CommandAnswer) {
		var t record.Task
		if err := json.Unmarshal(a.Result, &t); err != nil || t.Status != status || t.Objective != objective {
			r.t.Errorf("the task is %s (%v), want %q and %s", a.Result, err, objective, status)
		}
	}
}

// running begins a turn and returns its id.
func (r *rig) running() string {
	r.t.Helper()
	r.say("main", "Look.", "")
	c, ok, err := r.machine.Claim(r.t.Context(), "main")
	if err != nil || !ok {
		r.t.Fatalf("claim: %v, %v", ok, err)
	}
	return c.Attempt.TurnID
}

// head is the id of the message that is next.
func (r *rig) head() (id string) {
	r.look(func(v ledger.View) error {
		e, _, err := v.Head("main")
		id = e.MessageID
		return err
	})
	return id
}

// pause stops the agent main.
func (r *rig) pause() {
	r.t.Helper()
	expect.NoError(r.t, r.machine.Stop(r.t.Context(), "main", "operator"))
}

// stopped checks whether the agent main is stopped.
func (r *rig) stopped(want bool) {
	r.t.Helper()
	r.look(func(v ledger.View) error {
		s, err := v.AgentState("main")
		expect.Equal(r.t, "the agent is stopped", s.Stopped, want)
		return err
	})
}

var (
	tableRow    = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (supported|read_only) \\| (.*) \\|$")
	unsupported = regexp.MustCompile(`Unsupported, with the reason in .get_capabilities.: ([^.]*)\.`)
	commandName = regexp.MustCompile("`[a-z_]+`")
)

// documented returns the commands of a page, each as a row with name, status and note.
func documented(page string) (rows [][]string) {
	rows = tableRow.FindAllStringSubmatch(page, -1)
	if list := unsupported.FindStringSubmatch(page); list != nil {
		for _, name := range commandName.FindAllString(list[1], -1) {
			rows = append(rows, []string{"", strings.Trim(name, "`"), "unsupported", ""})
		}
	}
	return rows
}

// Every one of the 42 commands is in the documentation, with the status and the route that get_capabilities
// tells, and does what these say.
func TestTheCommandsOfTheStandard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/read-models.md")
	expect.NoError(t, err)
	rows := documented(string(text))
	if len(rows) != 42 {
		t.Fatalf("the page has %d commands, want 42", len(rows))
	}
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	var told []wire.Capability
	expect.NoError(t, json.Unmarshal(r.commanded(d, "get_capabilities", `{"command_id":"a"}`).Result, &told))
	cases := supported()
	for _, row := range rows {
		name, status, note := row[1], row[2], row[3]
		i := slices.IndexFunc(told, func(c wire.Capability) bool { return c.Command == name })
		if i < 0 {
			t.Errorf("get_capabilities does not tell of %s", name)
			continue
		}
		if c := told[i]; c.Status != status || status == "read_only" && c.Route != note {
			t.Errorf("%s is %s (%s) on the page, and %+v in get_capabilities", name, status, note, c)
		}
		if status != "supported" {
			continue // it is refused below
		}
		c, ok := cases[name]
		if !ok {
			t.Errorf("%s is supported and not tested", name)
			continue
		}
		t.Run(name, func(t *testing.T) { c.test(t, name) })
	}
	expect.Equal(t, "commands, with those that the standard forgot", len(told), 42+8)
	seen := map[string]bool{}
	for _, c := range told {
		supported := c.Status == "supported"
		if _, ok := cases[c.Command]; ok != supported || seen[c.Command] || supported != (c.Reason+c.Route == "") {
			t.Errorf("%+v is tested to be carried out: %v, is listed twice: %v, or has no reason", c, ok, seen[c.Command])
		}
		if seen[c.Command] = true; !supported {
			r.refuses(d, c)
		}
	}
	for name := range cases {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[1] == name }) {
			t.Run(name, func(t *testing.T) { cases[name].test(t, name) })
		}
	}
}

// refuses checks that a command is refused with its reason, or with what to ask instead, and leaves nothing.
func (r *rig) refuses(d *described, c wire.Capability) {
	r.t.Helper()
	before := r.newest()
	a := r.ask(d, post("/runtime/commands/"+c.Command, `{"command_id":"a","text":"x"}`))
	a.is(r.t.(*testing.T), c.Command, 501, c.Status, "name")
	if text := a.failure.Message + a.failure.Hint; !strings.Contains(text, c.Reason+c.Route) || r.newest() != before {
		r.t.Errorf("%s is refused with %q and %d events, want %q and none", c.Command, text, r.newest()-before,
			c.Reason+c.Route)
	}
}

// test carries a command out, then sends it again, also to another process, and with its id for something else.
func (c carried) test(t *testing.T, name string) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	body := `{"command_id":"c1"` + c.prepare(r) + `}`
	send := func() answer { return r.ask(d, post("/runtime/commands/"+name, body)) }
	before := r.newest()
	first := send()
	after := r.newest()
	if (after > before) == c.reads {
		t.Errorf("%s makes %d events, and only reads: %v", name, after-before, c.reads)
	}
	var told wire.CommandAnswer
	if err := json.Unmarshal([]byte(first.body), &told); err != nil || first.status != 200 {
		t.Fatalf("%s is answered %d %s", name, first.status, first.body)
	}
	if told.CommandID != "c1" || told.Status != "accepted" || told.AppliedThroughSequence != after ||
		told.NoOp {
		t.Errorf("%s is answered %+v, want c1 accepted through %d", name, told, after)
	}
	c.effect(r, told)
	same := func(when string) {
		t.Helper()
		if again := send(); again.body != first.body || r.newest() != after {
			t.Errorf("%s %s is answered %s with %d events, want %s and none", name, when, again.body,
				r.newest()-after, first.body)
		}
	}
	same("again")
	r.reopen()
	same("after a restart")
	if c.reads {
		return
	}
	r.ask(d, post("/runtime/commands/"+name, `{"command_id":"c1","text":"other","turn_id":"t","queued_turn_id":"m"}`)).
		is(t, name+" with another body", 409, "conflict", "command_id")
	other := "get_capabilities"
	r.ask(d, post("/runtime/commands/"+other, body)).is(t, other+" with the id of "+name, 409, "conflict", "command_id")
	if now := r.newest(); now != after {
		t.Errorf("conflicts make %d events", now-after)
	}
	same("after conflicts")
}
