package prompt

import (
	"cmp"
	"slices"
	"strings"

	"holon/responses"
	"holon/skills"
)

// Input is the data of a turn's prompt.
type Input struct {
	Mode         turnMode
	AgentHome    string // directory with the agent's AGENTS.md
	WorkDir      string // the working tree, "" when the turn has none
	Anchor       string // directory with the AGENTS.md of the workspace, "" for WorkDir
	HasInput     bool   // the caller gave files for this turn
	Services     string // that commands reach, as NAME:PORT, separated by commas; "" for none
	Skills       []skills.Skill
	Active       []skills.Skill // those that the session has in use
	Tools        []string       // names of the container's tools that are offered
	Instructions string         // the request's own
}

// Prompt is the instructions of a turn, in order.
type Prompt struct {
	Sources []Source // one of each section
}

// Assemble reads the files and returns the prompt of a turn. The same input and
// files give the same prompt.
func Assemble(in Input) Prompt {
	request := ""
	if strings.TrimSpace(in.Instructions) != "" { // the caller's own words, as they are
		request = "# Instructions of the request\n\n" + in.Instructions
	}
	anchor := cmp.Or(in.Anchor, in.WorkDir)
	if anchor == in.AgentHome {
		anchor = "" // the AGENTS.md of an agent that works in its home is sent once
	}
	return Prompt{[]Source{
		newSource("policy", kindBuiltin, policy),
		newSource("execution", kindBuiltin, execution(in.WorkDir, in.HasInput, in.Services)),
		newSource("mode", kindBuiltin, modes[in.Mode]),
		agentInstructions(in.AgentHome),
		workspaceInstructions(anchor, in.WorkDir),
		newSource("skills", kindCatalog, skills.Catalogue(in.Skills)),
		newSource("active-skills", kindCatalog, activeSkills(in.Active)),
		newSource("tools", kindBuiltin, toolGuidance(in.Tools)),
		newSource("request", kindRequest, request),
	}}
}

// Text returns the prompt as a new conversation gets it.
func (p Prompt) Text() string {
	lead, _ := Split(p.Items(nil))
	return lead.Text()
}

// Fingerprint identifies a prompt.
func (p Prompt) Fingerprint() string {
	var b strings.Builder
	for _, src := range p.Sources {
		b.WriteString(src.Name + " " + src.Digest + "\n")
	}
	return digest(b.String())
}

// Notes returns a line for each source that was cut or left out.
func (p Prompt) Notes() []string {
	var notes []string
	for _, src := range p.Sources {
		if src.Note != "" {
			notes = append(notes, src.Name+": "+src.Note)
		}
	}
	return notes
}

// SourceNames returns the names of the sources that have text, in order.
func (p Prompt) SourceNames() []string {
	var names []string
	for _, src := range p.Sources {
		if src.Text != "" {
			names = append(names, src.Name)
		}
	}
	return names
}

// Items returns the context items that bring a conversation up to date: all of
// the prompt when history holds none of it, otherwise what has changed since,
// and nothing when nothing has. They belong behind history and before what the
// model is to answer.
func (p Prompt) Items(history []responses.Item) []responses.Item {
	told := make(map[string]string) // digest by name
	for _, item := range history {
		if name, sum, ok := parseID(item); ok {
			told[name] = sum
		}
	}
	var items []responses.Item
	for _, src := range p.Sources {
		before, known := told[src.Name]
		_, subject := section(src.Name)
		switch {
		case !known && src.Text == "", before == src.Digest:
		case len(told) == 0:
			items = append(items, item(src, src.Text))
		case src.Text == "":
			items = append(items, item(src, "What was said before about "+subject+
				" no longer holds; there is nothing in its place."))
		case known:
			items = append(items, item(src, "This replaces what was said before about "+subject+".\n\n"+src.Text))
		default:
			items = append(items, item(src, src.Text))
		}
	}
	return items
}

func item(src Source, text string) responses.Item {
	return &responses.Message{
		ID: responses.PrefixContext + src.Name + "_" + src.Digest, Status: responses.ItemCompleted,
		Role:    responses.RoleDeveloper,
		Content: []responses.Part{{Type: responses.PartInputText, Text: text}},
	}
}

// parseID returns the name and the digest that a context item carries.
func parseID(item responses.Item) (name, sum string, ok bool) {
	if !responses.IsContext(item) {
		return "", "", false
	}
	return strings.Cut(strings.TrimPrefix(item.ItemID(), responses.PrefixContext), "_")
}

// Lead is the first run of context items of a conversation: its initial prompt.
type Lead struct {
	at    int
	items []responses.Item
}

// Split divides a conversation into its lead, which a transport sends as
// instructions, and the rest. When the conversation grows at its end, the lead stays
// the same and the rest grows at its end. The conversation is not changed.
func Split(conversation []responses.Item) (Lead, []responses.Item) {
	var l Lead
	for l.at < len(conversation) && !responses.IsContext(conversation[l.at]) {
		l.at++
	}
	end := l.at
	for end < len(conversation) && responses.IsContext(conversation[end]) {
		end++
	}
	l.items = conversation[l.at:end:end]
	return l, slices.Concat(conversation[:l.at], conversation[end:])
}

// Text returns the instructions.
func (l Lead) Text() string {
	var parts []string
	for _, item := range l.items {
		if message, ok := item.(*responses.Message); ok {
			parts = append(parts, message.Text())
		}
	}
	return strings.Join(parts, between)
}

// between separates two sources.
const between = "\n\n"

// Breakpoints returns the offsets in Text, in bytes, at which a source is followed by
// one that changes more often: the text before is likely to be the same in other
// conversations, so that a provider can cache it for them.
func (l Lead) Breakpoints() []int {
	var points []int
	often := []stability{stable, agentScoped, turnScoped} // in this order
	size, before := 0, turnScoped
	for _, item := range l.items {
		message, ok := item.(*responses.Message)
		if !ok {
			continue
		}
		name, _, _ := parseID(item)
		class, _ := section(name)
		if size > 0 {
			if slices.Index(often, class) > slices.Index(often, before) {
				points = append(points, size)
			}
			size += len(between)
		}
		size += len(message.Text())
		before = class
	}
	return points
}

// Restore puts the lead back into a rest that has grown at its end since Split.
func (l Lead) Restore(rest []responses.Item) []responses.Item {
	return slices.Concat(rest[:l.at], l.items, rest[l.at:])
}
