package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"holon/internal/visible"
	"holon/runner/agent/memory"
	"holon/state/ledger"
)

// Memory is what the runtime remembers for an agent.
type Memory struct {
	ledger.Memory
	Episodes []ledger.Episode // that are relevant, the oldest first; shown when the conversation begins anew
	Curated  []CuratedFile
}

// CuratedFile is a file of the agent's home that the agent and its operator keep as memory.
type CuratedFile struct {
	Path   string // in the home
	Text   string
	Digest string // of the content
}

// maxCurated bounds what is shown of a curated file, in characters.
const maxCurated = 6000

// show adds what the conversation does not know of the memory, each thing once.
func (m Memory) show(p *Prompt, begins bool) {
	p.Curated, p.CuratedShown = m.Curated, map[string]string{}
	switch {
	case begins:
		p.add(remembered("Your working memory, which the runtime derives from your records", m.Revision,
			memory.Lines(m.Current)))
		p.add(episodes(m.Episodes))
	case m.Pending != nil:
		p.add(remembered(fmt.Sprintf("What changed in your working memory since revision %d (%s)", m.Pending.From,
			m.Pending.Reason), m.Pending.To, m.Pending.SummaryLines))
	}
	for _, f := range m.Curated {
		if p.CuratedShown[f.Path] = f.Digest; begins || m.CuratedShown[f.Path] != f.Digest {
			p.add(f.block())
		}
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

// episodes shows earlier work of the agent.
func episodes(list []ledger.Episode) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("[episodes] Earlier work of yours that may matter now. A record, which asks for nothing:")
	for _, e := range list {
		fmt.Fprintf(&b, "\n- %s (%s): %s", e.ID, e.Boundary, e.Summary)
	}
	return b.String()
}

// block shows the file, "" for one without text. It says what is not shown.
func (f CuratedFile) block() string {
	text := strings.TrimSpace(visible.Text(f.Text))
	if text == "" {
		return ""
	}
	if n := utf8.RuneCountInString(text); n > maxCurated {
		text = fmt.Sprintf("%s\n[… %d characters omitted, see agent_home/%s]", string([]rune(text)[:maxCurated]),
			n-maxCurated, f.Path)
	}
	return fmt.Sprintf("[curated memory] agent_home/%s as it is now:\n%s", f.Path, fenced(f.Path, text, len(text)))
}
