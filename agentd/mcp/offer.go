package mcp

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"holon/agentd/tools"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
)

// Offer is the tools of servers for one turn. It does not change while the turn runs;
// a call of a tool that its server has withdrawn is an error.
type Offer struct {
	// Tools are the host's, under their own names, then those of each server. The
	// later of two with the same name is used.
	Tools []tools.Tool
	Notes []note // for the turn's record

	asked []*asked
}

// asked is the connection to a server of one request.
type asked struct {
	stop context.CancelFunc
	done chan struct{}
}

// Server returns the name of the server that offers a tool, "" for a tool of none. Offer may be nil.
func (o *Offer) Server(name string) string {
	if o == nil {
		return ""
	}
	for _, offered := range slices.Backward(o.Tools) { // the later of two is used
		if t, ok := offered.(*tool); ok && t.listed.name == name && !t.Completes() {
			return t.server.name
		}
	}
	return ""
}

// Release ends the connections that were made for one request. It may be called
// more than once, and on nil.
func (o *Offer) Release() {
	if o == nil {
		return
	}
	for _, a := range o.asked {
		a.stop()
	}
	for _, a := range o.asked {
		<-a.done
	}
	o.asked = nil
}

// Offer returns the tools for a turn whose request names the given servers. It waits
// briefly for servers that are still connecting. A server that is unavailable is an
// error, a *responses.Error about the field, unless it is optional and not named, or
// was connected before: then it is a note. Release the offer after the turn.
func (m *Manager) Offer(ctx context.Context, requested []responses.MCPTool) (_ *Offer, err error) {
	o := &Offer{Notes: slices.Clone(m.options.Config.notes)}
	defer func() {
		if err != nil {
			o.Release()
		}
	}()
	settle(ctx, m.servers)
	demanded := make(map[*server]responses.MCPTool)
	var extra []*server // of this request only
	for _, want := range requested {
		s, err := m.find(want)
		if err != nil {
			return nil, err
		}
		if s == nil {
			if s, err = m.ask(o, want); err != nil {
				return nil, err
			}
			extra = append(extra, s)
		}
		demanded[s] = want
	}
	settle(ctx, extra)
	for _, s := range append(append([]*server(nil), m.servers...), extra...) {
		want, named := demanded[s]
		if err := o.add(s, want, named); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// find returns the configured server that a request names, nil when the request may
// bring one of its own.
func (m *Manager) find(want responses.MCPTool) (*server, error) {
	refuse := func(field, message, hint string) error {
		e := responses.Invalid(want.Param+field, responses.CodeMCPNotAllowed, message)
		e.Hint = hint
		return e
	}
	for _, s := range m.servers {
		if s.name != want.Label || s.host {
			continue
		}
		switch {
		case !s.cfg.AllowRequest:
			return nil, refuse(".server_label", fmt.Sprintf("requests may not name the server %q", want.Label),
				"its tools are there without being named; the operator can set allow_request")
		case want.URL != "" && want.URL != s.cfg.URL:
			return nil, refuse(".server_url", fmt.Sprintf("the server %q has another address", want.Label),
				"leave out server_url, or choose another label")
		case len(want.Headers) > 0 || want.Authorization != "":
			return nil, refuse(".headers", "the operator sets the headers of this server",
				"leave out headers and authorization")
		}
		return s, nil
	}
	if want.URL == "" {
		return nil, refuse(".server_label", fmt.Sprintf("no server %q may be named by requests", want.Label),
			"the operator has to configure it with allow_request")
	}
	if !validServer(want.Label) {
		return nil, refuse(".server_label", "the label cannot be part of a tool's name",
			fmt.Sprintf("use at most %d letters, digits, '-' and single '_'", maxServerName))
	}
	for _, allowed := range m.options.Config.RequestURLs {
		if below(want.URL, allowed) {
			return nil, nil
		}
	}
	return nil, refuse(".server_url", "requests may not name this address",
		"the operator has to add it to request_urls")
}

// below reports whether an address is allowed by another: the same host, and the
// same path or one below it, without "." and ".." segments and without escapes of
// other characters than those that need one.
func below(raw, allowed string) bool {
	u, err := parseURL(raw)
	if err != nil || strings.Contains(raw, `\`) {
		return false
	}
	a, err := parseURL(allowed)
	if err != nil || !strings.EqualFold(u.Scheme, a.Scheme) || !strings.EqualFold(u.Host, a.Host) {
		return false
	}
	if at := strings.TrimSuffix(u.Path, "/"); u.RawPath != "" || at != "" && path.Clean(at) != at {
		return false
	}
	base := strings.TrimSuffix(a.Path, "/")
	return u.Path == a.Path || u.Path == base || strings.HasPrefix(u.Path, base+"/")
}

// ask connects to a server of this request.
func (m *Manager) ask(o *Offer, want responses.MCPTool) (*server, error) {
	cfg := Server{URL: want.URL, headers: make(http.Header)}
	for name, value := range want.Headers {
		if addHeader(cfg.headers, name, value) != nil {
			return nil, responses.Invalid(want.Param+".headers", responses.CodeInvalidValue,
				"a header cannot be set: its name or value is malformed, or the transport sets it")
		}
	}
	if want.Authorization != "" {
		if cfg.headers.Get("Authorization") != "" {
			return nil, responses.Invalid(want.Param+".authorization", responses.CodeInvalidValue,
				"headers has an Authorization too; send one")
		}
		if addHeader(cfg.headers, "Authorization", "Bearer "+want.Authorization) != nil {
			return nil, responses.Invalid(want.Param+".authorization", responses.CodeInvalidValue,
				"it cannot be sent in a header")
		}
	}
	s := m.newServer(want.Label, cfg, m.dialHTTP(cfg), false)
	ctx, cancel := context.WithCancel(m.ctx)
	a := &asked{stop: cancel, done: make(chan struct{})}
	o.asked = append(o.asked, a)
	go func() {
		defer close(a.done)
		s.keep(ctx)
	}()
	return s, nil
}

// add adds the tools of a server to the offer. named says that the request names the
// server, in want.
func (o *Offer) add(s *server, want responses.MCPTool, named bool) error {
	s.mu.Lock()
	state, failure, offered, refused := s.state, s.failure, s.offered, s.refused
	s.mu.Unlock()
	if state == turns.MCPFailed {
		offered, refused = nil, nil
	}
	if state != turns.MCPReady {
		if failure == "" {
			failure = "it has not answered yet"
		}
		if named {
			return responses.MCPUnavailable(want.Param,
				fmt.Sprintf("the MCP server %q is not there: %s", s.name, failure))
		}
		if !s.host && !s.cfg.Optional && offered == nil {
			e := responses.MCPUnavailable(cmp.Or(s.cfg.list, "servers")+"."+s.name,
				fmt.Sprintf("the MCP server %q is not there: %s", s.name, failure))
			e.Hint = "check the server, or mark it with optional: true in the list of MCP servers"
			return e
		}
		o.Notes = append(o.Notes, note{noteUnavailable,
			fmt.Sprintf("the MCP server %s is not there: %s", s.name, failure)})
	}
	o.Notes = append(o.Notes, refused...)
	there := make(map[string]bool)
	for _, l := range offered {
		there[l.tool] = true
		if named && !within(want.AllowedTools, l.tool) {
			continue
		}
		o.Tools = append(o.Tools, &tool{server: s, listed: l})
	}
	for i, name := range want.AllowedTools {
		if !there[name] {
			e := responses.Invalid(fmt.Sprintf("%s.allowed_tools[%d]", want.Param, i), responses.CodeInvalidValue,
				fmt.Sprintf("the server %q offers no tool %q", s.name, visible.OneLine(name, 80)))
			e.Hint = "the operator may not allow it, or the server does not have it"
			return e
		}
	}
	return nil
}

// Replaced returns a note for each tool of the host that replaces a built-in one.
func (o *Offer) Replaced(ours []tools.Definition) []note {
	own := make(map[string]bool, len(ours))
	for _, def := range ours {
		own[def.Name] = true
	}
	var notes []note
	for _, t := range o.Tools {
		if named, ok := t.(*tool); ok && named.Completes() {
			continue
		}
		if name := t.Definition().Name; own[name] {
			notes = append(notes, note{noteReplaced,
				fmt.Sprintf("the host's tool %s takes the place of the built-in one", name)})
		}
	}
	return notes
}
