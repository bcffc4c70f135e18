package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holon/runner/hosttools"
	"holon/test/expect"
)

// say calls a tool and returns the receipt.
func (r *rig) say(name, id, arguments string) hosttools.Result {
	r.t.Helper()
	res, err := r.tools[name].Call(r.t.Context(), hosttools.Call{ID: id, Arguments: json.RawMessage(arguments)})
	expect.NoError(r.t, err)
	return res
}

// The model reads what happened to an item, and not the JSON of it.
func TestWorkReceipts(t *testing.T) {
	r := newRig(t)
	r.turn()
	made := r.say("CreateWorkItem", "t/1", `{"objective":"mend it","todo_list":[{"text":"a","state":"completed"},`+
		`{"text":"b","state":"pending"}]}`)
	var out struct {
		Item struct{ ID string } `json:"work_item"`
	}
	expect.NoError(t, json.Unmarshal(made.Structured, &out))
	id := out.Item.ID
	named := fmt.Sprintf(`{"work_item_id":%q}`, id)
	expect.Equal(t, "CreateWorkItem", made.Text, "work item "+id+" created, 2 todos (1 completed), draft")
	for _, c := range []struct{ tool, arguments, want string }{
		{"PickWorkItem", named, "work item " + id + " picked, 2 todos (1 completed), draft, current"},
		{"UpdateWorkItem", strings.Replace(named, "}", `,"plan_status":"ready","blocked_by":"the forge"}`, 1),
			"work item " + id + " updated, 2 todos (1 completed), ready, current; blocked by the forge"},
		{"GetWorkItem", named, "work item " + id + ", 2 todos (1 completed), ready, current\nobjective: mend it\n" +
			"blocked by: the forge\nrechecked at: 2026-03-01T13:00:00Z\n- completed: a\n- pending: b"},
	} {
		expect.Equal(t, c.tool+": says", r.say(c.tool, "t/"+c.tool, c.arguments).Text, c.want)
	}
	if got := r.say("CompleteWorkItem", "t/2", named).Text; !strings.HasPrefix(got,
		"work item "+id+" completed, 2 todos (1 completed), completed\nwarning no_report: ") {
		t.Errorf("CompleteWorkItem says %q, want the end and the warning", got)
	}
}

// A list has whole items, says how many are left, and its pages have every item once.
func TestListPages(t *testing.T) {
	r := newRig(t)
	r.turn()
	const n = 60
	for i := range n {
		r.say("CreateWorkItem", fmt.Sprintf("t/%d", i), fmt.Sprintf(`{"objective":"%d %s","plan_status":"draft"}`, i,
			strings.Repeat("x", 4000)))
	}
	for name, limit := range map[string]int{"as many as fit": 200, "at most seven": 7} {
		t.Run(name, func(t *testing.T) {
			seen, after := map[string]bool{}, ""
			for len(seen) < n {
				res := r.say("ListWorkItems", "t/list", fmt.Sprintf(`{"limit":%d,"after":%q}`, limit, after))
				var p struct {
					Items []struct{ ID string } `json:"work_items"`
					Left  int
					After string
				}
				expect.NoError(t, json.Unmarshal(res.Structured, &p))
				for _, item := range p.Items {
					if seen[item.ID] || !strings.Contains(res.Text, "\n"+item.ID+", ") {
						t.Errorf("item %s is repeated or not in the text", item.ID)
					}
					seen[item.ID] = true
				}
				first := fmt.Sprintf("%d work items listed, %d left\n", len(p.Items), n-len(seen))
				if len(p.Items) == 0 || len(p.Items) > limit || p.Left != n-len(seen) ||
					!strings.HasPrefix(res.Text, first) || len(res.Text)+len(res.Structured) > 40<<10 {
					t.Fatalf("%d items, %d left, %d bytes of text that begin with %.80q", len(p.Items), p.Left,
						len(res.Text), res.Text)
				}
				after = p.After
			}
			expect.Equal(t, "the last page goes on after", after, "")
		})
	}
	r.refuses("ListWorkItems", map[string]string{`{"after":"work_none"}`: "after", `{"limit":0}`: "limit",
		`{"limit":201}`: "limit"})
}

// The URL of the trigger is in the receipt, and not in the summary, which is recorded.
func TestTriggerReceipt(t *testing.T) {
	r := newRig(t)
	got := r.say("ExternalTriggerGet", "t/1", `{}`)
	if !strings.Contains(got.Text, ", active: https://holon.example/callbacks/wake/") || got.Summary == "" ||
		strings.Contains(got.Summary, "callbacks") {
		t.Errorf("the receipt is %q with the summary %q", got.Text, got.Summary)
	}
}
