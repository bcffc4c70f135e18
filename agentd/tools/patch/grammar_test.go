package patch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holon/agentd/tools"
	"holon/test/expect"
)

// lark reads as much of Lark as the grammar is written in, and makes one regular
// expression of it.
type lark struct {
	t     *testing.T
	rules map[string][]string // by name: the tokens of what they stand for
}

var larkToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|[A-Za-z]+|[()|?*+]`)

func parseLark(t *testing.T, text string) lark {
	t.Helper()
	l := lark{t, make(map[string][]string)}
	for line := range strings.Lines(text) {
		name, body, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "" {
			continue
		}
		tokens := larkToken.FindAllString(body, -1)
		squeeze := strings.NewReplacer(" ", "")
		switch {
		case !ok:
			t.Fatalf("the line %q cannot be read: %q", line, tokens)
		case l.rules[name] != nil:
			t.Fatalf("%.120q: l.rules[name] = %q, want nil", line, l.rules[name])
		case squeeze.Replace(strings.Join(tokens, "")) != squeeze.Replace(body):
			t.Fatalf(`%.120q: squeeze.Replace(strings.Join(tokens, "")) = %q, want %q`, line,
				squeeze.Replace(strings.Join(tokens, "")), squeeze.Replace(body))
		}
		l.rules[name] = tokens
	}
	return l
}

// pattern returns the regular expression of a rule.
func (l lark) pattern(name string) string {
	if l.rules[name] == nil {
		l.t.Fatalf("there is no rule %q", name)
	}
	var b strings.Builder
	for _, tok := range l.rules[name] {
		switch {
		case tok[0] == '"':
			b.WriteString("(?:" + regexp.QuoteMeta(strings.ReplaceAll(tok[1:len(tok)-1], `\n`, "\n")) + ")")
		case tok[0] == '/':
			b.WriteString("(?:" + tok[1:len(tok)-1] + ")")
		case tok == "(":
			b.WriteString("(?:")
		case strings.ContainsAny(tok, ")|?*+"):
			b.WriteString(tok)
		default:
			b.WriteString("(?:" + l.pattern(tok) + ")")
		}
	}
	return b.String()
}

func grammar(t *testing.T) *regexp.Regexp {
	t.Helper()
	return regexp.MustCompile(`\A(?:` + parseLark(t, grammarText).pattern("start") + `)\z`)
}

// strictly parses a patch and reports whether nothing of it had to be tolerated.
func strictly(text string) (document, bool) {
	doc, bad := parse(text)
	return doc, bad == nil && len(doc.diags) == 0 && len(doc.ignored) == 0
}

func TestGrammarAdmits(t *testing.T) {
	g := grammar(t)
	for _, body := range []string{
		"*** Add File: a\n+x\n",
		"*** Add File: dir/with space/a.go\n+\n+ x\n++y\n",
		"*** Delete File: a\n",
		"*** Update File: a\n@@\n-x\n+y\n",
		"*** Update File: a\n@@ func f() {\n x\n-y\n+z\n \n",
		"*** Update File: a\n@@ class A\n@@ def f\n x\n+y\n@@\n z\n-w\n*** End of File\n",
		"*** Update File: a\n*** Move to: b\n",
		"*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n",
		"*** Add File: a\n+x\n*** Delete File: b\n*** Update File: c\n@@\n+x\n",
	} {
		for _, end := range []string{"\n", ""} {
			text := "*** Begin Patch\n" + body + "*** End Patch" + end
			if !g.MatchString(text) {
				t.Errorf("the grammar has no place for\n%s", text)
			}
			if doc, ok := strictly(text); !ok {
				t.Errorf("the tool does not simply take\n%s: %+v", text, doc.diags)
			}
		}
	}
}

// The grammar admits neither mistakes that are tolerated nor another form nor
// other text.
func TestGrammarDoesNotAdmit(t *testing.T) {
	g := grammar(t)
	for _, text := range []string{
		"", "*** Begin Patch\n*** End Patch\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n",
		"```\n*** Begin Patch\n*** Delete File: a\n*** End Patch\n```\n",
		"Here it is:\n*** Begin Patch\n*** Delete File: a\n*** End Patch\n",
		"*** Begin Patch\n*** Delete File: a\n",
		"*** Begin Patch\n*** Add File: a\nx\n*** End Patch\n",
		"*** Begin Patch\n*** Update File: a\n*** End Patch\n",
		"*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch\n",
		"*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch\n",
		"*** Begin Patch\n*** Move to: a\n*** End Patch\n",
		"*** Begin Patch\n*** Delete File: \n*** End Patch\n",
		"*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch\r\n",
	} {
		if g.MatchString(text) {
			t.Errorf("the grammar admits %q", text)
		}
	}
}

// The free form goes through the whole tool.
func TestFreeformIsApplied(t *testing.T) {
	tool, err := New()
	expect.NoError(t, err)
	form := tool.Definition().Freeform
	if form == nil {
		t.Fatal("form = nil, want a value")
	}
	expect.Equal(t, "form.Argument", form.Argument, "patch")
	expect.Equal(t, "form.Syntax", form.Syntax, "lark")
	expect.Equal(t, "form.Definition", form.Definition, grammarText)
	dir := t.TempDir()
	files{"old.go": "package a\n\nfunc f() {\n\treturn\n}\n", "gone": "x\n"}.make(t, dir)
	text := "*** Begin Patch\n*** Add File: new\n+one\n+two\n*** Delete File: gone\n*** Update File: old.go\n*** " +
		"Move to: dir/new.go\n@@ func f() {\n-\treturn\n+\tpanic(1)\n }\n*** End Patch\n"
	if !grammar(t).MatchString(text) {
		t.Fatal("the grammar does not admit it")
	}
	reg, err := tools.NewRegistry(tool)
	expect.NoError(t, err)
	o := reg.Run(t.Context(), tools.Env{WorkDir: dir},
		tools.Call{ID: "c", Name: name, Arguments: []byte(`{"patch":` + quoted(text) + `}`)})
	if o.Canonical.Error != nil || strings.Contains(o.Rendered, "Tolerated") {
		t.Fatal(o.Rendered)
	}
	got, err := os.ReadFile(filepath.Join(dir, "dir", "new.go"))
	if err != nil || string(got) != "package a\n\nfunc f() {\n\tpanic(1)\n}\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func quoted(s string) string {
	return `"` + strings.NewReplacer("\n", `\n`, "\t", `\t`, `"`, `\"`).Replace(s) + `"`
}
