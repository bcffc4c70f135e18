package compaction

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// message is the n-th message of a conversation.
func message(n int) responses.Item {
	return &responses.Message{ID: fmt.Sprintf("msg_%d", n), Status: responses.ItemCompleted, Role: responses.RoleUser,
		Content: []responses.Part{responses.InputText(fmt.Sprintf("words %d", n))}}
}

// words are the texts of messages.
func words(items []responses.Item) (list []string) {
	for _, item := range items {
		text := item.(*responses.Message).Text()
		list = append(list, text[strings.LastIndex(text, "\n")+1:])
	}
	return list
}

func TestTold(t *testing.T) {
	opaque := func(raw string) responses.Item {
		return &responses.OpaqueItem{Type: typeStored, ID: "cmp_1", Raw: json.RawMessage(raw)}
	}
	const first = `{"type":"holon:context_compaction","id":"cmp_1","epoch":1,"told":[1,-1],"summary":"so far"}`
	tests := []struct {
		name   string
		stored responses.Item // after the second of three messages; nil for none
		want   []string
		epoch  int
	}{
		{"none", nil, []string{"words 0", "words 1", "words 2"}, 0},
		{"one", opaque(first), []string{"words 1", "so far", "words 2"}, 1},
		{"of a later place", opaque(strings.Replace(first, "[1,", "[2,", 1)), []string{"words 0", "words 1", "words 2"}, 0},
		{"of a negative place", opaque(strings.Replace(first, "[1,", "[-2,", 1)),
			[]string{"words 0", "words 1", "words 2"}, 0},
		{"of nothing", opaque(strings.Replace(first, "[1,-1]", "[]", 1)), []string{"words 0", "words 1", "words 2"}, 0},
		{"of one twice", opaque(strings.Replace(first, "[1,", "[1,1,", 1)),
			[]string{"words 0", "words 1", "words 2"}, 0},
		{"without its summary", opaque(strings.Replace(first, "so far", "", 1)),
			[]string{"words 0", "words 1", "words 2"}, 0},
		{"damaged", opaque(`{"told":"all"}`), []string{"words 0", "words 1", "words 2"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conversation := []responses.Item{message(0), message(1)}
			if tt.stored != nil {
				conversation = append(conversation, tt.stored)
			}
			got := Receipts{}.View(append(conversation, message(2)))
			if !slices.Equal(words(got.Items), tt.want) {
				t.Errorf("told %q, want %q", words(got.Items), tt.want)
			}
			expect.Equal(t, "epoch", got.Epoch, tt.epoch)
		})
	}
}

// TestStoredAgain has a second compaction of what the first left.
func TestStoredAgain(t *testing.T) {
	conversation := []responses.Item{message(0), message(1)}
	for n := range 3 {
		told := Receipts{}.View(conversation)
		next := told.Summarized(nil, Parts{Head: told.Items[:1], After: told.Items[1:]}, fmt.Sprintf("summary %d", n))
		next.Epoch++
		item, err := next.Item()
		expect.NoError(t, err)
		conversation = append(conversation, item, message(n+2))
	}
	got := Receipts{}.View(conversation)
	if want := []string{"summary 2", "words 1", "words 2", "words 3", "words 4"}; !slices.Equal(words(got.Items), want) {
		t.Errorf("told %q, want %q", words(got.Items), want)
	}
	expect.Equal(t, "epoch", got.Epoch, 3)
}
