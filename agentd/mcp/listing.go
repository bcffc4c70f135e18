package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/tools"
	"holon/internal/mcpwire"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
)

// Bounds of the tools of a server. They are generous, although all of it is sent to
// the model with every request.
const (
	maxTools       = 128       // of one server
	maxListed      = 10_000    // that are checked
	maxNotes       = 16        // about refused tools; the rest is only counted
	maxDescription = 4 << 10   // bytes; more is cut
	maxSchema      = 32 << 10  // bytes of the arguments' schema
	maxSchemaDepth = 32        // levels of nesting in it
	maxOffered     = 256 << 10 // bytes of all descriptions and schemas
	maxToolName    = 256       // bytes of a server's own name for a tool
	maxPublicName  = 64        // bytes of the name for the model
)

// prefix begins the names of tools of configured servers.
const prefix = "mcp__"

// listed is a tool as it is offered to a model.
type listed struct {
	tool        string // the server's own name
	name        string // the model's
	description string
	schema      json.RawMessage
	traits      turns.Traits
	round       bool // the host's tool wants to know the round of a call
	completes   bool // the host's tool completes the built-in one of its name
}

// note is a fact about servers and tools that a turn records.
type note struct {
	Code    string
	Message string
}

// Codes of a note.
const (
	noteUnavailable = "mcp_server_unavailable"
	noteRefused     = "mcp_tool_refused"
	noteSchema      = "mcp_tool_schema" // providers would refuse it
	noteReplaced    = "host_tool_replaces_builtin"
	noteIgnored     = "mcp_config_ignored"
)

// listing collects the tools of one server.
type listing struct {
	server   *server
	seen     int
	bytes    int
	taken    map[string]bool // the server's own names
	tools    []listed
	notes    []note
	unlisted int // refused tools that no note names
}

func newListing(s *server) *listing {
	return &listing{server: s, taken: make(map[string]bool)}
}

func (l *listing) full() bool { return l.seen >= maxListed }

// add checks one tool and adds it, or refuses it with a note. A tool that the
// operator does not allow is left out without a note.
func (l *listing) add(t *sdk.Tool) {
	if l.seen++; t == nil || l.seen > maxListed {
		return
	}
	if allowed := l.server.cfg.AllowedTools; allowed != nil && !slices.Contains(allowed, t.Name) {
		return
	}
	if why := l.check(t); why != "" && len(l.notes) >= maxNotes {
		l.unlisted++
	} else if why != "" {
		l.note(noteRefused, t, "is left out: "+why)
	}
}

func (l *listing) note(code string, t *sdk.Tool, what string) {
	l.notes = append(l.notes, note{code, fmt.Sprintf("the tool %q of %s %s", visible.OneLine(t.Name, 80), l.server.name,
		what)})
}

// check adds a tool, or returns why it is refused.
func (l *listing) check(t *sdk.Tool) string {
	switch {
	case t.Name == "" || len(t.Name) > maxToolName || strings.ContainsFunc(t.Name, unicode.IsControl):
		return "its name cannot be used"
	case l.taken[t.Name]:
		return "there are two of that name"
	case l.server.host && (!tools.ValidName(t.Name) || strings.HasPrefix(t.Name, prefix)):
		return "the name is none that a tool of the host may have"
	case len(l.tools) >= maxTools:
		return fmt.Sprintf("a server may offer %d tools; allow the ones that are needed", maxTools)
	}
	schema, why := checkSchema(t.InputSchema)
	if why != "" {
		return why
	}
	description := describe(t)
	if err := responses.CheckSchema("schema", schema); err != nil { // a provider would refuse the whole request
		if len(l.notes) < maxNotes {
			l.note(noteSchema, t, "is offered with its schema as text: "+err.Error())
		}
		described := "Its arguments, as its server describes them: " + string(schema)
		description = tools.Clip(strings.TrimSpace(description+"\n\n"+described), maxDescription)
		schema = json.RawMessage(`{"properties":{},"type":"object"}`)
	}
	if l.bytes+len(schema)+len(description) > maxOffered {
		return fmt.Sprintf("descriptions and schemas of a server may have %d bytes in all", maxOffered)
	}
	l.bytes += len(schema) + len(description)
	l.taken[t.Name] = true
	wants, _ := t.Meta[mcpwire.MetaRound].(bool)
	completes, _ := t.Meta[mcpwire.MetaCompletes].(bool)
	l.tools = append(l.tools, listed{tool: t.Name, completes: completes && l.server.host,
		description: description, schema: schema,
		traits: traits(t.Annotations), round: wants && l.server.host})
	return ""
}

// traits is what a server says of a tool, with the defaults of the protocol where it says a part; nothing when it says
// nothing. A server that gives only another annotation says that its tool is not read-only.
func traits(hints *sdk.ToolAnnotations) (t turns.Traits) {
	if hints == nil {
		return t
	}
	destroys := !hints.ReadOnlyHint && (hints.DestructiveHint == nil || *hints.DestructiveHint)
	t.ReadOnly, t.Destructive = &hints.ReadOnlyHint, &destroys
	return t
}

// checkSchema encodes the schema of a tool's arguments for a model. The server checks
// arguments against it; a validator here would have to evaluate an untrusted schema.
func checkSchema(schema any) (json.RawMessage, string) {
	object, ok := withoutNulls(schema).(map[string]any)
	if !ok {
		return nil, "its schema is not an object"
	}
	kinds, _ := object["type"].([]any)
	if _, there := object["type"]; !there || slices.Contains(kinds, any("object")) { // arguments are always an object
		object["type"] = "object"
	} else if object["type"] != "object" {
		return nil, "its schema is not of an object"
	}
	if none, _ := object["properties"].([]any); object["properties"] == nil || none != nil && len(none) == 0 {
		object["properties"] = map[string]any{} // providers insist; some languages encode an empty object as a list
	} else if _, ok := object["properties"].(map[string]any); !ok {
		return nil, "its schema's properties are not an object"
	}
	encoded := encode(object)
	if responses.CheckStrict(encoded, maxSchemaDepth) != nil {
		return nil, fmt.Sprintf("its schema nests deeper than %d levels", maxSchemaDepth)
	}
	if len(encoded) > maxSchema {
		return nil, fmt.Sprintf("its schema has more than %d bytes", maxSchema)
	}
	return encoded, ""
}

// withoutNulls returns a schema without the keywords that are null, which many encoders write for what is absent. A
// schema that is null allows everything, and null stays where it is a value.
func withoutNulls(schema any) any {
	switch v := schema.(type) {
	case nil:
		return map[string]any{}
	case map[string]any:
		for keyword, value := range v {
			switch named, _ := value.(map[string]any); keyword {
			case "const", "default", "enum", "examples":
				continue
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				for name := range named {
					named[name] = withoutNulls(named[name])
				}
			default:
				if list, ok := value.([]any); ok {
					list = slices.DeleteFunc(list, func(element any) bool { return element == nil })
					for i := range list {
						list[i] = withoutNulls(list[i])
					}
					v[keyword] = list
				} else if named != nil {
					v[keyword] = withoutNulls(value)
				}
			}
			if value == nil {
				delete(v, keyword)
			}
		}
	}
	return schema
}

// describe returns the tool's description without characters that are invisible to
// people but not to models.
func describe(t *sdk.Tool) string {
	text := t.Description
	if text == "" {
		text = t.Title
	}
	text = strings.TrimSpace(visible.Text(text))
	return tools.Clip(text, maxDescription)
}

// result returns the tools, in the order of their own names, and the notes about
// refused tools.
func (l *listing) result() ([]listed, []note) {
	slices.SortFunc(l.tools, func(a, b listed) int { return strings.Compare(a.tool, b.tool) })
	names := make([]string, len(l.tools))
	for i, t := range l.tools {
		names[i] = t.tool
	}
	public := names
	if !l.server.host {
		public = publicNames(l.server.name, names)
	}
	for i := range l.tools {
		l.tools[i].name = public[i]
	}
	notes := l.notes
	if extra := l.unlisted + max(0, l.seen-maxListed); extra > 0 {
		notes = append(notes, note{noteRefused, fmt.Sprintf("%d more tools of %s are left out", extra, l.server.name)})
	}
	return l.tools, notes
}

// publicNames returns mcp__SERVER__TOOL for each tool, with the characters replaced
// that providers refuse. An ambiguous or truncated name ends with a digest of the
// tool's own name; of ambiguous ones, the name that needed no change keeps its form.
// The result does not depend on the order of the tools.
func publicNames(server string, names []string) []string {
	plain := func(name string) string { return prefix + server + "__" + strings.Map(providerRune, name) }
	count := make(map[string]int)
	exact := make(map[string]bool)
	for _, name := range names {
		p := plain(name)
		count[p]++
		exact[p] = exact[p] || strings.HasSuffix(p, "__"+name)
	}
	list := make([]string, len(names))
	for i, name := range names {
		p := plain(name)
		changed := !strings.HasSuffix(p, "__"+name)
		if len(p) > maxPublicName || count[p] > 1 && (changed || !exact[p]) {
			sum := sha256.Sum256([]byte(name))
			digest := "_" + hex.EncodeToString(sum[:4])
			p = p[:min(len(p), maxPublicName-len(digest))] + digest
		}
		list[i] = p
	}
	return list
}

// providerRune replaces a character that providers refuse in the name of a tool.
func providerRune(r rune) rune {
	if strings.ContainsRune(nameRunes, r) {
		return r
	}
	return '_'
}
