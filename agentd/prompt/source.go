// Package prompt assembles the instructions of a turn: policy, mode, the agent's and
// the workspace's AGENTS.md, skills, tools and the request's own instructions, in
// this order (runtime specification, "AGENTS.md Loading Contract").
//
// Every part is a [Source] with a name, a digest and the text for the model. A
// conversation begins with all of them. Later only changed sources are sent, as a
// message at the end, so that each request begins with the one before and providers
// can cache it. Sent sources are stored as context items of the conversation, whose
// ids contain name and digest, so that no second record can disagree.
//
// Text from files is bounded, printable and framed by lines that it cannot
// contain. The package reads files and nothing else; it does not judge their
// content.
package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// stability says how often a source changes (runtime specification,
// "PromptContentBlock").
type stability string

// The classes of stability.
const (
	stable      stability = "stable"       // with a new version of agentd
	agentScoped stability = "agent_scoped" // with the agent, its workspace or its configuration
	turnScoped  stability = "turn_scoped"  // with any turn
)

// sections are the sources that there are, with the subject of each for a model, in their order in a prompt.
var sections = []struct {
	name, subject string
	stability     stability
}{
	{"policy", "how to work", stable},
	{"execution", "the working tree and files", turnScoped},
	{"mode", "the mode of the turn", agentScoped},
	{"agent", "the instructions of the agent", agentScoped},
	{"workspace", "the instructions of the workspace", agentScoped},
	{"skills", "the list of skills", agentScoped},
	{"active-skills", "the skills in use", turnScoped},
	{"tools", "the use of tools", stable},
	{"request", "the instructions of the request", turnScoped},
}

// section returns the stability and the subject of the named source; an unknown name, of another version, gets the
// class that changes most often.
func section(name string) (class stability, subject string) {
	for _, s := range sections {
		if s.name == name {
			return s.stability, s.subject
		}
	}
	return turnScoped, name
}

// Source is one part of a prompt. A source without text is not sent.
type Source struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`           // builtin, agents_md, claude_md_fallback, catalogue, request
	Path      string    `json:"path,omitempty"` // of the file it comes from
	Stability stability `json:"stability"`
	Bytes     int       `json:"bytes"`          // of Text
	Digest    string    `json:"digest"`         // of Text
	Note      string    `json:"note,omitempty"` // text that was cut or could not be read
	Text      string    `json:"text"`
}

// Kinds of sources.
const (
	kindBuiltin  = "builtin"
	kindAgentsMD = "agents_md"
	kindClaudeMD = "claude_md_fallback"
	kindCatalog  = "catalogue"
	kindRequest  = "request"
)

// newSource returns a source and derives the other fields from name and text.
func newSource(name, kind, text string) Source {
	text = strings.TrimSpace(text)
	class, _ := section(name)
	return Source{Name: name, Kind: kind, Stability: class, Bytes: len(text), Digest: digest(text),
		Text: text}
}

// digest returns 96 bits of SHA-256, in hex. It detects changes and is not a
// protection.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// enclose puts foreign text in lines that the text cannot contain, because they
// contain its digest.
func enclose(about, text string) string {
	mark := digest(text)
	return fmt.Sprintf("%s\n\n<<< %s\n%s\n>>> %s", about, mark, text, mark)
}
