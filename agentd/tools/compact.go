package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"holon/agentd/preview"
)

// Family is what tools of one kind know about their results. It is asked about results of records, too, whose tools may
// be gone, so its methods depend on their arguments alone.
type Family interface {
	Renderer
	// Owns reports whether the family made the result of a call that succeeded.
	Owns(canonical Result) bool
	// Compact returns the result with less of what it shows, and flags that say so. Status, exit codes, handles,
	// artifacts and the state of each item stay. ok is false for a result of another shape.
	Compact(canonical Result, bounds Bounds) (_ Result, ok bool)
	// Truncated reports whether the model saw less than there was.
	Truncated(canonical Result) bool
}

// Bounds are what a compact result may hold.
type Bounds struct {
	Text int // bytes of all previews together
	List int // entries of a list that may grow without bound
}

// Families are the kinds of results that there are; the first that owns a result counts.
type Families []Family

// Compact returns r in at most about limit bytes of JSON (RFC "Compaction Contract"), or as little as the facts take.
// The same r and limit give the same bytes, and a compact result compacts to itself.
func (f Families) Compact(r Result, limit int) Result {
	return f.shrink(r, limit, func(r Result) int {
		data, err := encode(r)
		if err != nil {
			return 0
		}
		return len(data)
	})
}

// Receipt returns the text of about limit bytes that stands for an old result. dir is the directory that relative
// artifact paths lie in, "" for an unknown one. The same arguments give the same text.
func (f Families) Receipt(r Result, dir string, limit int) string {
	text := func(r Result) string {
		if r.Error != nil {
			return plainError(r, dir)
		}
		return f.of(r).Render(r, RenderPolicy{OutputDir: dir})
	}
	return text(f.shrink(r, limit, func(r Result) int { return len(text(r)) }))
}

// Truncated reports whether the model saw less of a result than there was.
func (f Families) Truncated(r Result) bool {
	if r.Error != nil {
		cut, _ := r.Error.Details["truncated"].(bool)
		return cut
	}
	return f.of(r).Truncated(r)
}

func (f Families) of(r Result) Family {
	if i := slices.IndexFunc(f, func(f Family) bool { return f.Owns(r) }); i >= 0 {
		return f[i]
	}
	return plainFamily{}
}

// leastText is the number of bytes from which a preview says anything.
const leastText = 128

// shrink compacts r until its size is at most limit or nothing more can go.
func (f Families) shrink(r Result, limit int, size func(Result) int) Result {
	if size(r) <= limit {
		return r
	}
	for b := (Bounds{Text: limit, List: 64}); ; b = (Bounds{b.Text * 3 / 4, max(b.List*3/4, 4)}) {
		if b.Text < leastText {
			b.Text = 0
		}
		c := f.compact(r, b)
		if b.Text == 0 || size(c) <= limit {
			return c
		}
	}
}

func (f Families) compact(r Result, b Bounds) Result {
	if r.Error != nil {
		e := *r.Error
		e.Details = CompactDetails(e.Details, b)
		r.Error = &e
		return r
	}
	if c, ok := f.of(r).Compact(r, b); ok {
		return c
	}
	c, _ := plainFamily{}.Compact(r, b)
	return c
}

// With returns r with another result.
func (r Result) With(result any) Result {
	if data, err := encode(result); err == nil { // results are made of JSON
		r.Result = data
	}
	return r
}

// CompactDetails returns the details of an error with less of what they show; "truncated" in them says so.
func CompactDetails(details map[string]any, b Bounds) map[string]any {
	if details == nil {
		return nil
	}
	var plain map[string]any // a tool's own types have no lists and strings to look at
	if data, err := encode(details); err != nil || json.Unmarshal(data, &plain) != nil {
		return map[string]any{"truncated": true}
	}
	c := &cutter{Bounds: b, texts: max(countTexts(plain), 1)}
	out, _ := c.value(plain).(map[string]any)
	if c.cut {
		out["truncated"] = true
	}
	return out
}

// plainFamily is the family of results that no other owns.
type plainFamily struct{}

func (plainFamily) Owns(Result) bool { return true }

func (plainFamily) Compact(r Result, b Bounds) (Result, bool) {
	var members map[string]any
	if json.Unmarshal(r.Result, &members) != nil || members == nil {
		return r, true
	}
	return r.With(CompactDetails(members, b)), true
}

func (plainFamily) Truncated(r Result) bool {
	var known struct {
		Truncated bool `json:"truncated"`
	}
	_ = json.Unmarshal(r.Result, &known) // another shape has no flag
	return known.Truncated
}

func (plainFamily) Render(r Result, policy RenderPolicy) string {
	var members map[string]any
	if json.Unmarshal(r.Result, &members) != nil || len(members) == 0 {
		return r.SummaryText
	}
	return r.SummaryText + plainMembers(members, policy.OutputDir)
}

// plainError is an old error as plain text.
func plainError(r Result, dir string) string {
	text := fmt.Sprintf("%s failed: %s\n%s", r.ToolName, r.Error.Kind, r.Error.Message)
	if r.Error.RecoveryHint != "" {
		text += "\nHint: " + r.Error.RecoveryHint
	}
	return text + fmt.Sprintf("\nRetryable: %t", r.Error.Retryable) + plainMembers(r.Error.Details, dir)
}

// plainMembers writes each value on lines of its own, under its path; files by their absolute paths, and numbers that
// only refer to them not at all.
func plainMembers(members map[string]any, dir string) string {
	var b strings.Builder
	writePlain(&b, "", members, dir)
	return b.String()
}

func writePlain(b *strings.Builder, path string, v any, dir string) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if artifact, _ := v[name].(string); artifact != "" && (name == "path" || name == "artifact") {
				writePlain(b, within(path, name), absolute(artifact, dir), dir)
			} else if _, index := v[name].(float64); !index || !strings.HasSuffix(name, "_artifact") {
				writePlain(b, within(path, name), v[name], dir)
			}
		}
	case []any:
		for i, elem := range v {
			writePlain(b, fmt.Sprintf("%s[%d]", path, i), elem, dir)
		}
	case string:
		if strings.Contains(v, "\n") {
			v = "\n" + strings.TrimSuffix(v, "\n")
		} else {
			v = " " + v
		}
		fmt.Fprintf(b, "\n%s:%s", path, v)
	default:
		data, _ := json.Marshal(v)
		fmt.Fprintf(b, "\n%s: %s", path, data)
	}
}

func within(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// absolute returns where an artifact lies, its path as it is where that is unknown.
func absolute(path, dir string) string {
	if dir == "" || !strings.HasPrefix(path, "tools/") || !filepath.IsLocal(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// cutter bounds the strings and lists of a value. Short strings, which are names, kinds and paths, stay.
type cutter struct {
	Bounds
	texts int // long strings that share Bounds.Text
	cut   bool
}

// shortText is the number of bytes up to which a string is not cut.
const shortText = 256

func countTexts(v any) (n int) {
	switch v := v.(type) {
	case string:
		if len(v) > shortText {
			return 1
		}
	case []any:
		for _, elem := range v {
			n += countTexts(elem)
		}
	case map[string]any:
		for _, member := range v {
			n += countTexts(member)
		}
	}
	return n
}

func (c *cutter) value(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) <= shortText {
			return v
		}
		short, cut := preview.Shorten(&v, c.Text/c.texts)
		c.cut = c.cut || cut
		if short == nil {
			return nil
		}
		return *short
	case []any:
		out := make([]any, min(len(v), c.List))
		c.cut = c.cut || len(out) < len(v)
		for i := range out {
			out[i] = c.value(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = c.value(member)
		}
		return out
	}
	return v
}
