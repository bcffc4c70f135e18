package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"holon/agentd/preview"
	"holon/responses"
)

// family is what tools of one kind know about their results. It is asked about results of records, too, whose tools may
// be gone, so its methods depend on their arguments alone.
type family interface {
	renderer
	// Owns reports whether the family made the result of a call that succeeded.
	Owns(canonical Result) bool
	// Truncated reports whether the model saw less than there was.
	Truncated(canonical Result) bool
}

// compacter is a family with a way of its own to say less. All other results are compacted by what they are made of:
// long texts and lists are cut, and flags say so. Numbers, names, handles and artifacts stay.
type compacter interface {
	// Compact returns the result with less of what it shows. ok is false for a result of another shape.
	Compact(canonical Result, bounds Bounds) (_ Result, ok bool)
}

// Bounds are what a compact result may hold.
type Bounds struct {
	Text int // bytes of all previews together
	List int // entries of a list that may grow without bound
}

// Families are the kinds of results that there are; the first that owns a result counts.
type Families []family

// Compact returns r in at most about limit bytes of JSON (RFC "Compaction Contract"), or as little as the facts take.
// The same r and limit give the same bytes, and a compact result compacts to itself.
func (f Families) Compact(r Result, limit int) Result {
	return f.shrink(r, limit, func(r Result) int {
		data, err := responses.Marshal(r)
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

func (f Families) of(r Result) family {
	if i := slices.IndexFunc(f, func(f family) bool { return f.Owns(r) }); i >= 0 {
		return f[i]
	}
	return plainFamily{}
}

// leastText is how much of a long text always stays, leastList how many entries of a list.
const (
	leastText = 80
	leastList = 12
)

// shrink compacts r until its size is at most limit or nothing more can go.
func (f Families) shrink(r Result, limit int, size func(Result) int) Result {
	if size(r) <= limit {
		return r
	}
	for b := (Bounds{Text: limit, List: 64}); ; b = (Bounds{b.Text * 3 / 4, max(b.List*3/4, leastList)}) {
		if b.Text < preview.MinShort {
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
		if e.Details != nil {
			e.Details = cutMembers(e.Details, b)
		}
		r.Error = &e
		return r
	}
	if family, ok := f.of(r).(compacter); ok {
		if c, ok := family.Compact(r, b); ok {
			return c
		}
	}
	var members map[string]any
	if json.Unmarshal(r.Result, &members) != nil || members == nil {
		return r
	}
	return r.With(cutMembers(members, b))
}

// With returns r with another result.
func (r Result) With(result any) Result {
	if data, err := responses.Marshal(result); err == nil { // results are made of JSON
		r.Result = data
	}
	return r
}

// plainFamily is the family of results that no other owns.
type plainFamily struct{}

func (plainFamily) Owns(Result) bool { return true }

func (plainFamily) Truncated(r Result) bool {
	var flag struct {
		Truncated bool `json:"truncated"`
	}
	_ = json.Unmarshal(r.Result, &flag) // another shape has no flag
	return flag.Truncated
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

// shortText is the number of bytes up to which a string is a name or a kind, and stays, as a path does.
const shortText = 160

// cutMembers returns the members of an object with less of what they show. Flags that they have say so, or "truncated".
func cutMembers(members map[string]any, b Bounds) map[string]any {
	var plain map[string]any // a tool's own types have no lists and strings to look at
	if data, err := responses.Marshal(members); err != nil || json.Unmarshal(data, &plain) != nil {
		return map[string]any{"truncated": true}
	}
	c := &cutter{list: b.List}
	c.share(longTexts(plain), b.Text)
	if c.members(plain) {
		plain["truncated"] = true
	}
	return plain
}

// cutter bounds the strings and lists of a value.
type cutter struct {
	list int // entries of a list
	text int // bytes of a long text
	many int // long texts that still have that many bytes; others have leastText
}

// share divides rest bytes among texts of these lengths: what is shorter than its share leaves bytes to others, and
// where shares would be too small to show anything, the first get one.
func (c *cutter) share(lengths []int, rest int) {
	slices.Sort(lengths)
	c.many = len(lengths)
	for i, n := range lengths {
		if c.text = rest / (len(lengths) - i); n > c.text {
			break
		}
		rest -= n
	}
	if c.text < preview.MinShort {
		c.text, c.many = preview.MinShort, rest/preview.MinShort
	}
}

// longTexts returns the lengths of the strings in v that may be cut.
func longTexts(v any) (lengths []int) {
	switch v := v.(type) {
	case string:
		if len(v) > shortText {
			return []int{len(v)}
		}
	case []any:
		for _, elem := range v {
			lengths = append(lengths, longTexts(elem)...)
		}
	case map[string]any:
		for key, member := range v {
			if !isPath(key) {
				lengths = append(lengths, longTexts(member)...)
			}
		}
	}
	return lengths
}

func isPath(key string) bool { return key == "path" || strings.HasSuffix(key, "_path") }

// members cuts the members of an object and sets its flags. It reports a cut for which it has none.
func (c *cutter) members(object map[string]any) (cut bool) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		list, isList := object[key].([]any)
		if omitted, counts := object["omitted"].(float64); counts && isList && len(list) > c.list {
			object["omitted"], object[key] = omitted+float64(len(list)-c.list), list[:c.list]
		}
		if isPath(key) {
			continue
		}
		var here bool
		if object[key], here = c.value(object[key]); here && c.many < 0 && strings.HasSuffix(key, "_preview") {
			object[key] = nil // the beginning of an output says too little
		}
		cut = cut || here
	}
	for key, flag := range object {
		if _, ok := flag.(bool); ok && cut && strings.HasSuffix(key, "truncated") {
			object[key], cut = true, false
		}
	}
	return cut
}

// value cuts a value and reports a cut that no flag says.
func (c *cutter) value(v any) (_ any, cut bool) {
	switch v := v.(type) {
	case string:
		if len(v) <= shortText {
			return v, false
		}
		if c.many--; c.many < 0 {
			return Clip(v, leastText), true
		}
		short, cut := preview.Shorten(&v, c.text)
		return *short, cut
	case []any:
		out := v[:min(len(v), c.list)]
		cut = len(out) < len(v)
		for i := range out {
			var here bool
			out[i], here = c.value(out[i])
			cut = cut || here
		}
		return out, cut
	case map[string]any:
		return v, c.members(v)
	}
	return v, false
}
