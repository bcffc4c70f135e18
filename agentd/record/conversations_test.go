package record

import (
	"fmt"
	"sync"
	"testing"

	"holon/responses"
)

func message(id string) responses.Item { return &responses.Message{ID: id, Role: responses.RoleUser} }

func one(id string, bytes int64) link {
	return link{id: id, last: last{session: "s"}, items: []responses.Item{message(id)}, bytes: bytes}
}

func ids(items []responses.Item) string {
	s := ""
	for _, item := range items {
		s += item.ItemID()
	}
	return s
}

func TestConversationsForkAndStayApart(t *testing.T) {
	c := newConversations(1 << 20)
	for _, step := range [][2]string{{"", "a"}, {"a", "b"}, {"b", "c"}, {"b", "d"}, {"d", "e"}, {"c", "f"},
		{"a", "g"}} {
		c.extend(step[0], one(step[1], 1))
	}
	for id, want := range map[string]string{"a": "a", "b": "ab", "c": "abc", "d": "abd", "e": "abde", "f": "abcf",
		"g": "ag"} {
		items, session, ok := c.get(id)
		switch {
		case ids(items) != want:
			t.Errorf("%.120q: ids(items) = %q, want %q", id, ids(items), want)
		case session != "s":
			t.Errorf(`%.120q: session = %q, want "s"`, id, session)
		case !ok:
			t.Errorf("%s is %q, want %q", id, ids(items), want)
		}
		if cap(items) != len(items) {
			t.Errorf("%s could be appended to in place", id)
		}
	}
	c.extend("unknown", one("z", 1))
	if _, _, ok := c.get("z"); ok {
		t.Error("a conversation without its beginning is kept")
	}
	c.forget("b")
	if _, _, ok := c.get("b"); ok {
		t.Error("a forgotten response is known")
	}
	if items, _, _ := c.get("c"); ids(items) != "abc" {
		t.Errorf("after b was forgotten c is %q", ids(items))
	}
}

func TestConversationsAreBounded(t *testing.T) {
	c := newConversations(100)
	for i := range 50 {
		c.extend("", one(fmt.Sprint("r", i), 30))
		c.get("r0") // in use
	}
	switch {
	case c.bytes > 100:
		t.Errorf("c.bytes = %d, want at most 100", c.bytes)
	case c.recent.Len() != 3:
		t.Errorf("c.recent.Len() = %d, want 3", c.recent.Len())
	case len(c.places) != 3:
		t.Errorf("len(c.places) = %d (%+v), want 3", len(c.places), c.places)
	}
	if _, _, ok := c.get("r0"); !ok {
		t.Error("what is in use was dropped")
	}
	c.extend("", one("huge", 101))
	if _, _, ok := c.get("huge"); ok || len(c.places) != 3 {
		t.Errorf("a conversation beyond the bound is kept, or others were dropped: %d places", len(c.places))
	}
}

// Forks that grow side by side never see each other's items.
func TestConversationsGrowSideBySide(t *testing.T) {
	c := newConversations(1 << 20)
	c.extend("", one("r", 1))
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			last, want := "r", "r"
			for i := range 100 {
				id := fmt.Sprintf("<%d.%d>", w, i)
				c.extend(last, one(id, 1))
				last, want = id, want+id
				if items, _, _ := c.get(id); ids(items) != want {
					t.Errorf("got %q, want %q", ids(items), want)
					return
				}
			}
		})
	}
	group.Wait()
}
