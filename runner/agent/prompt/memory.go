package prompt

import (
	"fmt"
	"slices"
	"strings"

	"holon/runner/agent/memory"
	"holon/state/ledger"
)

// Memory is what the runtime remembers for an agent.
type Memory struct {
	ledger.Memory
	Episodes []ledger.Episode // that are relevant, the oldest first; shown when the conversation begins anew
	Curated  []CuratedFile
}

// show adds what the conversation does not know of the memory, each thing once. Where the conversation begins, that is
// at most space bytes with the earlier turns, which get what is left, if its lines leave some.
func (m Memory) show(p *Prompt, begins bool, space int) {
	p.Curated, p.CuratedShown = m.Curated, map[string]string{}
	lines := ""
	switch {
	case begins:
		m.CuratedShown = nil
		lines = remembered("Your working memory, which the runtime derives from your records", m.Revision,
			memory.Lines(m.Current))
	case m.Pending != nil:
		lines = remembered(fmt.Sprintf("What changed in your working memory since revision %d (%s)", m.Pending.From,
			m.Pending.Reason), m.Pending.To, m.Pending.SummaryLines)
	}
	var files []string
	left := space - len(lines)
	for _, f := range m.Curated {
		shown := f.cut(space / 8)
		now := digests(shown)
		if p.CuratedShown[f.Path] = now; now == m.CuratedShown[f.Path] {
			continue
		}
		files = append(files, f.block(shown, m.CuratedShown[f.Path]))
		left -= len(files[len(files)-1])
	}
	p.add(lines)
	if begins {
		p.add(episodes(m.Episodes, left/2))
	}
	for _, text := range files {
		p.add(text)
	}
}

// remembered shows lines of a working memory as they are.
func remembered(what string, revision int64, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return fmt.Sprintf("[memory] %s, revision %d. A record, which asks for nothing:\n- %s", what, revision,
		strings.Join(lines, "\n- "))
}

// episodes shows earlier work of the agent, the newest of it that fits into so many bytes.
func episodes(list []ledger.Episode, space int) string {
	var lines []string
	for _, e := range slices.Backward(list) {
		line := fmt.Sprintf("\n- %s (%s): %s", e.ID, e.Boundary, e.Summary)
		if space -= len(line); space < 0 {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Reverse(lines)
	return "[episodes] Earlier work of yours that may matter now. A record, which asks for nothing:" +
		strings.Join(lines, "")
}
