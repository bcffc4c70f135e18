package main

import (
	"fmt"
	"slices"

	"holon/internal/visible"
	"holon/responses"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state"
)

// summary ends the view with what a person does next.
func (p *progress) summary(m *state.Manifest, dir string) {
	if p.quiet {
		return
	}
	files := changes(m)
	p.println(fmt.Sprintf("%s in %s: %s", m.Status, elapsed(m.Timings.TotalMS), count(len(files), "file")+" changed"))
	for i, f := range files {
		if i == 20 {
			p.println(fmt.Sprintf("  … and %d more", len(files)-i))
			break
		}
		p.println(fmt.Sprintf("  %-8s %s  %s", f.Status, namesOf(f), lineCounts(f)))
	}
	ws := workspaceOf(m)
	info, diff := ws.Source, ws.Changes
	if diff != nil {
		for _, line := range oneshot.ExecutedFiles(diff.Warnings) {
			p.println(line)
		}
	}
	warnings := slices.DeleteFunc(slices.Clone(m.Warnings), func(w string) bool { return slices.Contains(p.warned, w) })
	for i, w := range warnings {
		if i == 5 {
			p.println(fmt.Sprintf("  … and %d more warnings, see %s", len(warnings)-i, state.ManifestFile))
			break
		}
		p.println("  warning: " + visible.OneLine(w, 300))
	}
	if used := tokensUsed(m); used != "" {
		p.println("tokens   " + used)
	}
	if spent := oneshot.Spent(m); spent != "" {
		p.println("budget   " + spent)
	}
	p.println("results  " + dir)
	if len(files) > 0 {
		p.println("diff     holon diff " + m.RunID)
		p.println("apply    holon apply " + m.RunID)
		if info.Kind == workspace.KindGit {
			p.println("branch   holon checkout " + m.RunID)
		}
	}
}

// namesOf is the path of a changed file, with the one before of a file that was renamed.
func namesOf(f workspace.FileChange) string {
	name := visible.Name(f.Path)
	if f.From != "" {
		return visible.Name(f.From) + " → " + name
	}
	return name
}

// tokensUsed says what the models of a run took, and what that cost where prices are set.
func tokensUsed(m *state.Manifest) string {
	if m.Usage == nil || m.Usage.TotalTokens == 0 {
		return ""
	}
	text := tokensOf(m.Usage)
	if a := m.ModelUsage; a != nil && a.Cost > 0 {
		text += ", cost " + a.Cost.String()
	}
	return text
}

// tokensOf says how many tokens were read and written.
func tokensOf(u *responses.Usage) string {
	text := fmt.Sprintf("%d in", u.InputTokens)
	if cached := u.InputTokenDetails.CachedTokens; cached > 0 {
		text += fmt.Sprintf(" (%d cached)", cached)
	}
	return text + fmt.Sprintf(", %d out", u.OutputTokens)
}
