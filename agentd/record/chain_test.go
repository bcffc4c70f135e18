package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// put stores a response of one input and one output item.
func put(t *testing.T, s *Store, id, previous string) {
	t.Helper()
	tr, err := s.begin(header(id, previous), nil, []responses.Item{text("in_"+id, responses.RoleUser)})
	must(t, err)
	must(t, tr.Add(text("out_"+id, responses.RoleAssistant)))
	must(t, tr.Finish(final(id)), tr.sync(), tr.Publish(true))
}

func header(id, previous string) Header {
	return Header{ResponseID: id, PreviousResponseID: previous, SessionID: "sess_" + id, TurnID: "turn_" + id,
		CreatedAt: now(), Response: responses.Response{ID: id, Store: true}}
}

func final(id string) responses.Response {
	return responses.Response{ID: id, Object: "response", Status: responses.StatusCompleted, Store: true}
}

func text(id string, role responses.Role) *responses.Message {
	kind := "input_text"
	if role == responses.RoleAssistant {
		kind = "output_text"
	}
	return &responses.Message{ID: id, Role: role, Status: responses.ItemCompleted,
		Content: []responses.Part{{Type: kind, Text: "text of " + id}}}
}

// cold opens the store anew, as after a restart.
func cold(t *testing.T, s *Store) *Store {
	t.Helper()
	must(t, s.Close())
	again, err := OpenStore(s.dir)
	must(t, err)
	t.Cleanup(func() { _ = again.Close() })
	return again
}

// openStore opens a store that the test closes itself or reopens with cold.
func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := OpenStore(t.TempDir())
	must(t, err)
	return s
}

func encode(t *testing.T, items []responses.Item) string {
	t.Helper()
	data, err := json.Marshal(responses.Items(items))
	must(t, err)
	return string(data)
}

// names lists the ids of a chain.
func names(t *testing.T, s *Store, id string) string {
	t.Helper()
	items, session, err := s.Chain(id)
	if err != nil || session != "sess_"+id {
		t.Fatalf("the chain of %s: %q, %v", id, session, err)
	}
	list := ""
	for _, item := range items {
		list += item.ItemID() + " "
	}
	return list
}

func TestChain(t *testing.T) {
	s := openStore(t)
	put(t, s, "a", "")
	put(t, s, "b", "a")
	put(t, s, "c", "b")
	put(t, s, "d", "b") // a fork
	put(t, s, "gone", "")
	put(t, s, "orphan", "gone")
	want := map[string]string{
		"a": "in_a out_a ", "b": "in_a out_a in_b out_b ",
		"c": "in_a out_a in_b out_b in_c out_c ", "d": "in_a out_a in_b out_b in_d out_d ",
	}
	warm := make(map[string]string)
	for id := range want {
		items, _, err := s.Chain(id)
		must(t, err)
		warm[id] = encode(t, items)
	}
	must(t, os.Remove(s.donePath("gone")))
	for range 2 { // from the files, and then from memory
		s = cold(t, s)
		for range 2 {
			for _, id := range []string{"d", "a", "c", "b"} {
				if got := names(t, s, id); got != want[id] {
					t.Errorf("%s is %s, want %s", id, got, want[id])
				}
				if items, _, _ := s.Chain(id); encode(t, items) != warm[id] {
					t.Errorf("%s is other on disk than it was in memory", id)
				}
			}
		}
		for _, id := range []string{"orphan", "gone", "", "../a", "a/../a"} {
			if _, _, err := s.Chain(id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if _, err := s.begin(header("late", "gone"), nil, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a turn on a response that is gone: %v", err)
	}
	must(t, os.WriteFile(s.donePath("bad"), []byte("{}\n"), 0o600))
	if _, err := s.Load("bad"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a damaged response: %v", err)
	}
	must(t, os.Rename(s.donePath("c"), s.donePath("other")), s.Catalog(t.Context()))
	if _, _, err := cold(t, s).Chain("other"); !errors.Is(err, errDamaged) {
		t.Errorf("a response under another's name: %v", err)
	}
}

// A turn reads only what it does not know: the files of the conversation before
// it are not even there.
func TestAWarmChainReadsNoFiles(t *testing.T) {
	s := openStore(t)
	defer s.Close()
	last := ""
	for i := range 50 {
		id := fmt.Sprintf("r%03d", i)
		put(t, s, id, last)
		last = id
	}
	for i := range 49 {
		must(t, os.Remove(s.donePath(fmt.Sprintf("r%03d", i))))
	}
	items, _, err := s.Chain(last)
	if err != nil || len(items) != 100 {
		t.Errorf("%d items, %v", len(items), err)
	}
	put(t, s, "next", last)
	if items, _, err := s.Chain("next"); err != nil || len(items) != 102 {
		t.Errorf("%d items, %v", len(items), err)
	}
}

func TestHistoryIsStoredOnce(t *testing.T) {
	s := openStore(t)
	defer s.Close()
	last := ""
	for i := range 100 {
		id := fmt.Sprintf("r%03d", i)
		put(t, s, id, last)
		info, err := os.Stat(s.donePath(id))
		must(t, err)
		if info.Size() > 4<<10 {
			t.Fatalf("response %d takes %d bytes", i, info.Size())
		}
		last = id
	}
}

// Items that were not stored before come with the response.
func TestAResponseBringsUnstoredHistory(t *testing.T) {
	s := openStore(t)
	put(t, s, "a", "")
	for id, previous := range map[string]string{"x": "", "y": "a"} {
		tr, err := s.begin(header(id, previous),
			[]responses.Item{text("h1", responses.RoleUser), text("h2", responses.RoleAssistant)},
			[]responses.Item{text("in_"+id, responses.RoleUser)})
		must(t, err)
		must(t, tr.Add(text("out_"+id, responses.RoleAssistant)), tr.Finish(final(id)), tr.Publish(true))
	}
	put(t, s, "z", "y")
	for range 2 {
		if got := names(t, s, "x"); got != "h1 h2 in_x out_x " {
			t.Error(got)
		}
		if got := names(t, s, "z"); got != "in_a out_a h1 h2 in_y out_y in_z out_z " {
			t.Error(got)
		}
		stored, err := s.Load("x")
		if err != nil || len(stored.Input) != 1 || stored.Input[0].ItemID() != "in_x" {
			t.Errorf("the input is %+v, %v", stored, err)
		}
		s = cold(t, s)
	}
	must(t, s.Delete("a"))
	h := header("u", "a") // an unstored turn has its history already
	h.Response.Store = false
	tr, err := s.begin(h, nil, nil)
	must(t, err)
	must(t, tr.Publish(false))
}

func TestItemsAreFoundInAnyStoredResponse(t *testing.T) {
	s := openStore(t)
	tr, err := s.begin(header("a", ""), nil, []responses.Item{text("msg_in", responses.RoleUser)})
	must(t, err)
	call := &responses.ToolCall{ID: "tc_1", CallID: "c", Name: "ExecCommand", Arguments: "{}",
		Status: responses.ItemInProgress}
	must(t, tr.Add(&responses.Reasoning{ID: "rs_1", Summary: []responses.Part{{Type: "summary_text", Text: "hm"}},
		EncryptedContent: "opaque"}), tr.Started(call))
	call.Status, call.Output, call.Result = responses.ItemCompleted, "done", json.RawMessage("{}")
	must(t, tr.Add(call), tr.Add(text("msg_out", responses.RoleAssistant)))
	if _, err := s.Item(t.Context(), "msg_out"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an item of a running response: %v", err)
	}
	must(t, tr.Finish(final("a")), tr.Publish(true))
	// A client sends an answer back as input and changes it; the original stays.
	tr, err = s.begin(header("b", ""), nil,
		[]responses.Item{&responses.Message{ID: "msg_out", Role: responses.RoleAssistant}})
	must(t, err)
	must(t, tr.Finish(final("b")), tr.Publish(true))
	unstored, err := s.begin(header("u", ""), nil, []responses.Item{text("msg_u", responses.RoleUser)})
	must(t, err)
	must(t, unstored.Finish(final("u")), unstored.Publish(false))
	for range 2 {
		for _, id := range []string{"msg_in", "rs_1", "tc_1", "msg_out"} {
			item, err := s.Item(t.Context(), id)
			if err != nil || item.ItemID() != id {
				t.Errorf("%s is %v, %v", id, item, err)
			}
			switch item := item.(type) {
			case *responses.Reasoning:
				if item.EncryptedContent != "opaque" {
					t.Error("the reasoning lost its content")
				}
			case *responses.ToolCall:
				if item.Output != "done" || item.Status != responses.ItemCompleted {
					t.Errorf("the call is %+v", item)
				}
			case *responses.Message:
				expect.Equal(t, id+": reads", item.Text(), "text of "+id)
			}
		}
		for _, id := range []string{"msg_u", "nobody", ""} {
			if _, err := s.Item(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
		s = cold(t, s)
	}
	must(t, s.Delete("a"))
	if _, err := s.Item(t.Context(), "rs_1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an item of a deleted response: %v", err)
	}
}

func TestTheIndexOfItemsIsBounded(t *testing.T) {
	c := newCatalog()
	for i := range maxIndexedItems + 10 {
		c.index(fmt.Sprint(i), owner{response: "r", output: true})
	}
	_, oldest := c.items["9"]
	_, kept := c.items["10"]
	_, newest := c.items[fmt.Sprint(maxIndexedItems+9)]
	switch {
	case len(c.items) != maxIndexedItems:
		t.Errorf("len(c.items) = %d (%+v), want %d", len(c.items), c.items, maxIndexedItems)
	case len(c.order) != maxIndexedItems:
		t.Errorf("len(c.order) = %d (%q), want %d", len(c.order), c.order, maxIndexedItems)
	case oldest:
		t.Error("oldest = true, want false")
	case !kept:
		t.Error("kept = false, want true")
	case !newest:
		t.Error("newest = false, want true")
	}
}

// What a command changed of a response before it was stored is not stored.
func TestChangedByACommand(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"in place": func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(data, []byte("in_a"), []byte("in_b"), 1), 0o600))
		},
		"another file": func(path string) error {
			return errors.Join(os.Rename(path, path+"-moved"), os.WriteFile(path, []byte("{}\n"), 0o600))
		},
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+"-moved"), os.Symlink(path+"-moved", path))
		},
		"nothing": func(path string) error { return os.Rename(path, path+"-moved") },
		"none":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			tr, err := s.begin(header("a", ""), nil, []responses.Item{text("in_a", responses.RoleUser)})
			must(t, err)
			must(t, tr.Add(text("out_a", responses.RoleAssistant)), tr.sync())
			if change != nil {
				must(t, change(s.openPath("a")))
			}
			must(t, tr.Finish(final("a")))
			if err := tr.Publish(true); err != nil && name != "nothing" {
				t.Error(err)
			}
			if _, _, err := s.Chain("a"); (err == nil) != (change == nil) {
				t.Errorf("the stored response: %v", err)
			}
		})
	}
}
