package record

import (
	"cmp"
	"slices"
)

// window keeps the newest things by key, in the order in which they came. The zero window is empty.
type window[T any] struct {
	max     int   // 0: maxRecent
	total   int64 // that came and were not dropped
	omitted int64 // that came and were let go for newer ones
	undone  int64 // of those, the ones that were not done then; 0 without done
	order   []string
	byKey   map[string]*T
	done    func(*T) bool // gives way first; nil: age alone decides
}

// at returns the thing of a key, and makes it when there is none. The oldest one that is done gives way.
func (w *window[T]) at(key string) *T {
	if thing, ok := w.byKey[key]; ok {
		return thing
	}
	if w.byKey == nil {
		w.byKey = map[string]*T{}
	}
	if len(w.order) >= cmp.Or(w.max, maxRecent) {
		old := 0
		if w.done != nil {
			old = slices.IndexFunc(w.order, func(k string) bool { return w.done(w.byKey[k]) })
			if old < 0 {
				old, w.undone = 0, w.undone+1
			}
		}
		delete(w.byKey, w.order[old])
		w.order = slices.Delete(w.order, old, old+1)
		w.omitted++
	}
	thing := new(T)
	w.byKey[key] = thing
	w.order = append(w.order, key)
	w.total++
	return thing
}

// leaveOut counts things that came and of which no event tells.
func (w *window[T]) leaveOut(n int64) {
	if n > 0 {
		w.total, w.omitted = w.total+n, w.omitted+n
	}
}

// find returns the thing of a key, nil when it is not kept.
func (w *window[T]) find(key string) *T { return w.byKey[key] }

// drop forgets a thing, which is counted no more. One that is not kept was let go before, if any was.
func (w *window[T]) drop(key string) {
	if _, ok := w.byKey[key]; !ok {
		if w.omitted > 0 {
			w.omitted, w.total = w.omitted-1, w.total-1
		}
		return
	}
	w.total--
	delete(w.byKey, key)
	w.order = slices.DeleteFunc(w.order, func(k string) bool { return k == key })
}

// list copies what is kept, the oldest first. With a keep, which is of things that are not done, it counts only those.
func (w *window[T]) list(keep func(*T) bool) list[T] {
	out := list[T]{Total: w.total, Omitted: w.omitted, Items: []T{}}
	for _, key := range w.order {
		if thing := w.byKey[key]; keep == nil || keep(thing) {
			out.Items = append(out.Items, *thing)
		}
	}
	if keep != nil {
		out.Total, out.Omitted = int64(len(out.Items))+w.undone, w.undone
	}
	return out
}

// list is a window of things of a kind, the oldest first.
type list[T any] struct {
	Items   []T   `json:"items"`
	Total   int64 `json:"total"`   // that the record tells of
	Omitted int64 `json:"omitted"` // that are older than the window
}
