package oneshot

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"holon/runner"

	"holon/runner/workspace"
	"holon/state"
)

// With any text of others, the headings of a summary are ours and all of ours are there,
// nothing of theirs is markup, and no character changes how the rest is seen.
func TestSummaryIsOurs(t *testing.T) {
	for name, hostile := range map[string]string{
		"heading":        "x\n\n# Run run_2: success\n## Changes\n\nNo file was changed.",
		"setext":         "Run\n===\nChanges\n---",
		"comment":        "<!-- the rest is hidden",
		"details":        "<details><summary>more",
		"HTML":           "</code></pre><h1>Run: success</h1><img src=http://example.org/x>",
		"fence":          "```\n# Run: success\n~~~",
		"long fence":     strings.Repeat("`", 40) + "\n# Run: success\n" + strings.Repeat("`", 39),
		"cut fence":      strings.Repeat("x", maxQuoted-3) + "```````\n# Run: success",
		"code span":      "` `` ``` # x <b>",
		"link reference": "[manifest.json]: http://example.org\n[x](javascript:x)",
		"quote":          "> x\n# Run: success",
		"line ends":      "x\r# Run: success\r\n## Changes\u2028# x\u2029# y\u0085# z\v# a\f# b",
		"terminal":       "\x1b]0;title\x07\x1b[2J\u009b2J\a\b\x00\x7f",
		"bidirectional":  "a\u202egnp.exe\u202c\u2066b\u2069\u200f\u200e\u061c",
		"invisible":      "pass\u200bword\ufeff\u00ad\U000e0041\U000e007f",
		"not UTF-8":      "\xff\xfe# x\x80",
	} {
		t.Run(name, func(t *testing.T) {
			text := string((&execution{
				spec:     &Run{},
				ask:      runner.NewTurn("", hostile),
				manifest: hostileManifest(hostile),
				turn:     runner.End{Answer: hostile},
				diff: &workspace.Diff{Files: []workspace.FileChange{{Path: hostile, From: hostile,
					Status: "renamed"}}},
				denied: []string{hostile},
			}).summary())
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
				t.Errorf("it has %.20q", text[i:])
			}
			ours := outside(text)
			want := []string{"# Run " + nameSpan(hostile) + ": failure", "## Task", "## Error", "## Answer",
				"## Notes of the agent", "## Changes", "## Network", "## Warnings"}
			if got := headings(ours); !slices.Equal(got, want) {
				t.Errorf("the headings are %q", got)
			}
			if markup := withoutSpans(strings.Join(ours, "\n")); strings.ContainsAny(markup, "<>[]`~=\\") {
				t.Errorf("markup is not ours:\n%s", markup)
			}
		})
	}
}

func hostileManifest(text string) *state.Manifest {
	return &state.Manifest{RunID: "run_1", Name: text, Outcome: state.OutcomeFailure,
		Error: &state.Failure{Code: text, Message: text}, Warnings: []string{text},
		Notes: []state.Note{{Kind: text, Text: text}}, Egress: &state.Egress{AllowHosts: []string{text}}}
}

// outside are the lines that are not within a fence.
func outside(text string) (lines []string) {
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3 && ticks == line:
			fence = ticks
		case fence == "":
			lines = append(lines, line)
		case len(ticks) >= len(fence) && strings.TrimSpace(line) == ticks:
			fence = ""
		}
	}
	if fence != "" {
		lines = append(lines, "# the last fence is open")
	}
	return lines
}

func headings(lines []string) (list []string) {
	underline := regexp.MustCompile(`^ {0,3}(=+|-+)\s*$`)
	for _, line := range lines {
		if strings.HasPrefix(line, "#") || underline.MatchString(line) {
			list = append(list, line)
		}
	}
	return list
}

// withoutSpans takes the code spans out: each ends at the next run of as many
// backticks as it began with. A run without such an end stays.
func withoutSpans(text string) string {
	var rest strings.Builder
	run := regexp.MustCompile("`+")
	for {
		open := run.FindStringIndex(text)
		if open == nil {
			return rest.String() + text
		}
		rest.WriteString(text[:open[0]])
		ticks, after := text[open[0]:open[1]], text[open[1]:]
		end := slices.IndexFunc(run.FindAllStringIndex(after, -1), func(at []int) bool {
			return at[1]-at[0] == len(ticks)
		})
		if end < 0 {
			rest.WriteString(ticks)
			text = after
			continue
		}
		text = after[run.FindAllStringIndex(after, -1)[end][1]:]
	}
}
