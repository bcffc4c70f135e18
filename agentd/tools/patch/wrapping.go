package patch

import (
	"encoding/json"
	"strings"
)

const bom = "\ufeff"

// unwrap takes a patch out of what carried it: a byte order mark, an object of
// JSON, a string whose newlines are still escaped.
func (p *parser) unwrap(text string) string {
	if strings.HasPrefix(text, bom) {
		p.note("", "byte_order_mark", "a byte order mark before the patch was left out")
		text = text[len(bom):]
	}
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") {
		var object map[string]string
		if json.Unmarshal([]byte(t), &object) == nil && len(object) == 1 {
			for _, text = range object {
				p.note("", "json_object", "the patch was taken out of an object of JSON")
			}
		}
	}
	if plain, ok := unescape(strings.TrimSpace(text)); ok {
		p.note("", "escaped_newlines", "the patch had \\n instead of newlines")
		text = plain
	}
	return text
}

// unescape reads a text of one line that holds \n where its newlines should be,
// if there is only one way to read it.
func unescape(s string) (string, bool) {
	if strings.Contains(s, "\n") || !strings.Contains(s, `\n`) {
		return "", false
	}
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	var plain string
	if json.Unmarshal([]byte(`"`+strings.ReplaceAll(s, "\t", `\t`)+`"`), &plain) == nil {
		return plain, true
	}
	if strings.Count(s, `\`) == strings.Count(s, `\n`) {
		return strings.ReplaceAll(s, `\n`, "\n"), true
	}
	return "", false
}

// dropReturns takes off the \r of a patch that has one on every line, which says
// how the patch was carried, not how the file ends its lines.
func (p *parser) dropReturns() {
	for _, l := range p.lines {
		if l != "" && !strings.HasSuffix(l, "\r") {
			return
		}
	}
	for i, l := range p.lines {
		p.lines[i] = strings.TrimSuffix(l, "\r")
	}
}

// startsFile recognises the lines that name a file, or announce that.
var startsFile = lazy(`^(diff --(git|cc|combined) |--- \S|\+\+\+ \S|\*\*\* ?(?i:begin patch|(add|create|update|modify|edit|delete|remove) file))`)

// dropIndent takes off the spaces before a patch all of whose lines are indented
// alike, as in a list.
func (p *parser) dropIndent() {
	first, indent := -1, ""
	for i, l := range p.lines {
		text := strings.TrimLeft(l, " \t")
		if !startsFile().MatchString(text) {
			continue
		}
		if len(text) == len(l) {
			return // a patch that is not indented; what is so is its content
		}
		if first < 0 {
			first, indent = i, l[:len(l)-len(text)]
		}
	}
	if first < 0 {
		return
	}
	for _, l := range p.lines[first:] {
		if strings.TrimSpace(l) != "" && !strings.HasPrefix(l, indent) {
			return
		}
	}
	for i, l := range p.lines {
		if strings.TrimSpace(l) == "" {
			l = strings.TrimPrefix(l, indent)
		}
		p.lines[i] = strings.TrimPrefix(l, indent)
	}
	p.note("", "indented_patch", "the indentation of the whole patch was left out")
}

var fence = lazy("^(`{3,}|~{3,})[ \t]*([\\w.+-]*)[ \t\r]*$")

// dropFences takes off Markdown code fences around the patch or its parts, and
// the prose outside of them.
func (p *parser) dropFences() {
	open := -1
	start := 0
	for ; start < len(p.lines) && !startsFile().MatchString(p.lines[start]); start++ {
		if fence().MatchString(p.lines[start]) {
			open = start
		}
	}
	if open < 0 {
		return
	}
	mark := fence().FindStringSubmatch(p.lines[open])[1]
	for i := range start {
		p.lines[i] = ""
	}
	inside := true
	for i := start; i < len(p.lines); i++ {
		m := fence().FindStringSubmatch(p.lines[i])
		switch is := m != nil && strings.HasPrefix(m[1], mark); {
		case inside && is && m[2] == "" && p.closes(i):
			inside = false
		case inside:
			continue
		case is:
			inside = true
		}
		p.lines[i] = ""
	}
	p.note("", "code_fence", "a code fence around the patch was left out")
}

// closes reports whether a fence at line i ends a block: until the next one,
// nothing may follow that a patch could mean.
func (p *parser) closes(i int) bool {
	for _, l := range p.lines[i+1:] {
		switch {
		case fence().MatchString(l):
			return true
		case strings.HasPrefix(l, "+"), strings.HasPrefix(l, "-"), strings.HasPrefix(l, "@@"),
			startsFile().MatchString(l), isDirective(l):
			return false
		}
	}
	return true
}
