package compaction

import (
	"slices"

	"holon/responses"
)

// gone stands for a picture or a file that a provider refused. It is always the same, so that a request stays the
// beginning of the next.
const gone = "(A picture or a file was here. The model's provider refused it, and it is not shown any more.)"

// Strip replaces the pictures, files and videos of the items at places from since on by a text, and returns how many
// items had any.
func (t *View) Strip(since int) (stripped int) {
	for i, place := range t.Places {
		if place < since {
			continue
		}
		if item, had := bare(t.Items[i]); had {
			t.Items[i], t.Bare[place], stripped = item, true, stripped+1
		}
	}
	return stripped
}

// bare returns an item without pictures, files and videos, and whether it had any. It does not change item.
func bare(item responses.Item) (responses.Item, bool) {
	had := false
	without := func(parts []responses.Part) []responses.Part {
		parts = slices.Clone(parts)
		for i, p := range parts {
			switch p.Type {
			case responses.PartInputImage, responses.PartInputFile, responses.PartInputVideo:
				parts[i], had = responses.InputText(gone), true
			}
		}
		return parts
	}
	switch item := item.(type) {
	case *responses.Message:
		m := *item
		m.Content = without(item.Content)
		return &m, had
	case *responses.FunctionCallOutput:
		o := *item
		o.Output = without(item.Output)
		return &o, had
	case *responses.ToolCall:
		c := *item
		for _, p := range without(item.Media) {
			c.Output += "\n" + p.Text
		}
		c.Media = nil
		return &c, had
	}
	return item, false
}
