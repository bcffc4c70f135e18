// Package prompt decides what a model is told besides the conversation: policy,
// mode, the agent's and the workspace's AGENTS.md, skills, tools and the
// request's own instructions, in this order (runtime specification, "AGENTS.md
// Loading Contract").
//
// Every part is a [Source] with a name, a digest and the text as the model gets
// it. A conversation begins with all of them. Afterwards only what has changed
// is told, as a message at the end: what was sent stays a prefix of what is
// sent, so that providers can cache it. What was told is kept as context items
// of the conversation itself, whose ids carry name and digest, so there is no
// second record that could disagree with the first.
//
// Text from files is bounded, printable and framed by lines that it cannot
// contain. The package reads files and nothing else; it does not judge what
// they say.
package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stability says how often a source changes (runtime specification,
// "PromptContentBlock").
type Stability string

// The classes of stability.
const (
	Stable      Stability = "stable"       // with a new version of agentd
	AgentScoped Stability = "agent_scoped" // with the agent, its workspace or its configuration
	TurnScoped  Stability = "turn_scoped"  // with any turn
)

// Names of sources, in the order in which a model is told them.
const (
	Policy       = "policy"
	Execution    = "execution"
	Mode         = "mode"
	Agent        = "agent"
	Workspace    = "workspace"
	Skills       = "skills"
	ActiveSkills = "active-skills"
	Tools        = "tools"
	Request      = "request"
)

// Order is the order of sources.
var Order = []string{Policy, Execution, Mode, Agent, Workspace, Skills, ActiveSkills, Tools, Request}

// Source is one part of what a model is told. A source without text is not told.
type Source struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`           // builtin, agents_md, claude_md_fallback, catalogue, request
	Path      string    `json:"path,omitempty"` // of the file it comes from
	Stability Stability `json:"stability"`
	Bytes     int       `json:"bytes"`          // of Text
	Digest    string    `json:"digest"`         // of Text
	Note      string    `json:"note,omitempty"` // what was cut or could not be read
	Text      string    `json:"text"`
}

// Kinds of sources.
const (
	KindBuiltin  = "builtin"
	KindAgentsMD = "agents_md"
	KindClaudeMD = "claude_md_fallback"
	KindCatalog  = "catalogue"
	KindRequest  = "request"
)

// stability returns the class of the source of that name; a name that is not
// known, of another version, counts as the one that changes most.
func stability(name string) Stability {
	switch name {
	case Policy, Tools:
		return Stable
	case Mode, Agent, Workspace, Skills:
		return AgentScoped
	}
	return TurnScoped
}

// newSource fills in what follows from the name and the text.
func newSource(name, kind, text string) Source {
	text = strings.TrimSpace(text)
	return Source{Name: name, Kind: kind, Stability: stability(name), Bytes: len(text), Digest: digest(text),
		Text: text}
}

// digest is what ids carry: 96 bits of SHA-256, in hex. It tells a change; it
// guards nothing.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// frame marks text that somebody else wrote, by lines that the text does not
// contain: its own digest is part of them.
func frame(about, text string) string {
	mark := digest(text)
	return fmt.Sprintf("%s\n\n<<< %s\n%s\n>>> %s", about, mark, text, mark)
}

// clean makes text from a file printable: line ends are \n, and what a person who
// reviews the file could not see is left out.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\u200c', r == '\u200d': // the joiners are part of words
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)
}
