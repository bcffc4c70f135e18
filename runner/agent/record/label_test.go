package record

import (
	"slices"
	"testing"
)

// No label is behind one that has all its events.
func TestLabels(t *testing.T) {
	t.Parallel()
	all := map[string]string{}
	for _, l := range labels {
		if before, ok := all[l.Class]; ok {
			t.Errorf("%s is behind %s, which is the label of every %s", l.Name, before, l.Class)
		}
		if l.Has == "" {
			all[l.Class] = l.Name
		}
		if l.Level < LevelActionRequired || l.Level > LevelTrace || !slices.Contains(Categories, l.Category) {
			t.Errorf("%s has level %d and category %q", l.Name, l.Level, l.Category)
		}
	}
}
