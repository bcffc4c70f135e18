package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"holon/responses"
)

// cancelWithin bounds what follows a cancellation: the daemon ends the response and sends its last events.
const cancelWithin = 20 * time.Second

// session is one of the editor. What changes is under the agent's mu, but for what belongs to the prompt under way.
type session struct {
	agent *agent
	id    string // and the daemon's name of it
	cwd   string // where the editor works

	mode Mode
	turn context.CancelFunc // cancels the prompt under way; nil: there is none

	// of the prompt under way
	model     string
	workspace string // the directory of which the daemon has a private tree
	top       string // of the git working tree that cwd is in, else cwd
	previous  string // the last response
	shown     string // the state of the tree that was shown last
	last      string // kind of the last update
}

func (s *session) setMode(m Mode) {
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	s.mode = m
}

func (s *session) currentMode() Mode {
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	return s.mode
}

// begin makes the one prompt of a session, until end is called.
func (s *session) begin(ctx context.Context) (turn context.Context, end func(), err error) {
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	if s.turn != nil {
		return nil, nil, errBusy()
	}
	turn, cancel := context.WithCancel(ctx)
	s.turn, s.last = cancel, ""
	return turn, func() {
		cancel()
		s.agent.mu.Lock()
		defer s.agent.mu.Unlock()
		s.turn = nil
	}, nil
}

// send sends an update of the session.
func (s *session) send(u update) error {
	s.last = u.Kind
	return s.agent.conn.notify("session/update", sessionUpdate{s.id, u})
}

// prompt runs one turn, and brings what it changed into the editor's files as the mode says. What a turn changed that
// failed or was cancelled is shown with that of the next one.
func (a *agent) prompt(ctx context.Context, p promptRequest) (any, error) {
	s, err := a.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	input, err := s.input(p.Prompt)
	if err != nil {
		return nil, err
	}
	turn, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	response, err := s.run(turn, input)
	if err == nil && turn.Err() == nil && response.Error == nil && !s.longLived() {
		err = s.land(turn)
	}
	switch {
	case turn.Err() != nil:
		return stopped{"cancelled"}, nil
	case err != nil:
		return nil, err
	}
	return stopReason(response)
}

// run makes a response and shows it while it is made. After a cancellation it returns once the response has ended.
func (s *session) run(turn context.Context, input responses.Items) (*responses.Response, error) {
	r := createRequest{Model: s.model, Input: input}
	if !s.longLived() {
		r.Previous, r.Holon = s.previous, requestKeys{SessionID: s.id, Workspace: s.workspace}
		if s.agent.opts.Thoughts {
			r.Reasoning = &responses.ReasoningConfig{Summary: new("auto")}
		}
	}
	made, err := s.agent.daemon.create(turn, r)
	if turn.Err() != nil && made == nil {
		s.withdraw(turn)
		return nil, turn.Err()
	} else if err != nil {
		return nil, err
	}
	s.previous = made.ID
	return s.follow(turn, made.ID)
}

// follow shows a response while it is made, and cancels it when the turn is cancelled; then it shows what is left.
func (s *session) follow(turn context.Context, id string) (final *responses.Response, err error) {
	reading, leave := context.WithCancel(context.WithoutCancel(turn))
	left := make(chan struct{})
	stop := context.AfterFunc(turn, func() {
		defer close(left)
		time.AfterFunc(cancelWithin, leave)
		if s.agent.daemon.cancel(reading, id) != nil {
			leave()
		}
	})
	defer func() {
		if leave(); !stop() {
			<-left
		}
	}()
	for ev, err := range s.agent.daemon.events(reading, id) {
		if err == nil {
			err = s.event(ev)
		}
		if err != nil {
			return nil, err
		}
		if responses.Terminal(ev.Type) {
			final = ev.Response
		}
	}
	if final == nil {
		return nil, responses.Internal("the response ended without saying how", nil)
	}
	return final, nil
}

// longLived reports whether the session is a conversation with an agent of the daemon, which has its own files and
// knows what was said.
func (s *session) longLived() bool { return strings.HasPrefix(s.model, AgentPrefix) }

// withdraw cancels a response that the daemon may have begun to make before its answer was no longer waited for.
func (s *session) withdraw(turn context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(turn), cancelWithin)
	defer cancel()
	info, err := s.agent.daemon.session(ctx, s.id)
	if err != nil || len(info.ResponseIDs) == 0 {
		return // there is no session yet
	}
	last := info.ResponseIDs[len(info.ResponseIDs)-1]
	if err := s.agent.daemon.cancel(ctx, last); err != nil {
		s.agent.opts.Log.Warn("a response may still be made", "response", last, "err", err)
	}
}

// stopReason says why a turn ended, or what made it fail.
func stopReason(r *responses.Response) (any, error) {
	switch {
	case r.Status == responses.StatusCancelled:
		return stopped{"cancelled"}, nil
	case r.Error != nil:
		return nil, &rpcError{Code: codeInternal, Message: r.Error.Message, Data: &errorData{Code: r.Error.Code}}
	case r.IncompleteDetails == nil:
		return stopped{"end_turn"}, nil
	}
	switch r.IncompleteDetails.Reason {
	case responses.ReasonMaxOutputTokens:
		return stopped{"max_tokens"}, nil
	case responses.ReasonContentFilter:
		return stopped{"refusal"}, nil
	case responses.ReasonMaxRounds, responses.ReasonMaxToolCalls:
		return stopped{"max_turn_requests"}, nil
	}
	return nil, &rpcError{Code: codeInternal, Message: "the turn ended early: " + r.IncompleteDetails.Reason}
}

// event shows what happened.
func (s *session) event(ev responses.Event) error {
	switch ev.Type {
	case responses.EventTextDelta, responses.EventRefusalDelta:
		return s.chunk(updateMessage, ev.Delta)
	case responses.EventReasoningSummaryTextDelta, responses.EventReasoningDelta:
		return s.chunk(updateThought, ev.Delta)
	case responses.EventReasoningSummaryPartAdded:
		return s.paragraph(updateThought)
	case responses.EventItemAdded, responses.EventItemDone:
		if call, ok := ev.Item.(*responses.ToolCall); ok {
			return s.toolCall(call, ev.Type == responses.EventItemDone)
		}
		if _, ok := ev.Item.(*responses.Message); ok && ev.Type == responses.EventItemAdded {
			return s.paragraph(updateMessage)
		}
	}
	return nil
}

func (s *session) chunk(kind, text string) error {
	if text == "" {
		return nil
	}
	return s.send(update{Kind: kind, Content: textBlock(text)})
}

// paragraph sets the text that follows apart from text of the same kind before it, to which editors would add it.
func (s *session) paragraph(kind string) error {
	if s.last != kind {
		return nil
	}
	return s.chunk(kind, "\n\n")
}

// input makes a message of the user from the parts of a prompt.
func (s *session) input(blocks []block) (responses.Items, error) {
	if len(blocks) == 0 {
		return nil, invalidParams("the prompt is empty")
	}
	m := responses.UserMessage("")
	m.Content = nil
	for i, b := range blocks {
		part, err := s.part(b)
		if err != nil {
			return nil, invalidParams("prompt[%d]: %v", i, err)
		}
		m.Content = append(m.Content, part)
	}
	return responses.Items{m}, nil
}

func (s *session) part(b block) (part responses.Part, err error) {
	switch {
	case b.Type == "text":
		return responses.InputText(b.Text), nil
	case b.Type == "image" && strings.HasPrefix(b.MimeType, "image/") && b.Data != "":
		return responses.Part{Type: responses.PartInputImage, ImageURL: dataURL(b.MimeType, b.Data)}, nil
	case b.Type == "resource_link" && b.URI != "":
		return responses.InputText("[" + b.Name + "](" + s.seen(b.URI) + ")"), nil
	case b.Type == "resource" && b.Resource != nil && b.Resource.Text != nil:
		name, err := json.Marshal(s.seen(b.Resource.URI))
		return responses.InputText(fmt.Sprintf("<file path=%s>\n%s\n</file>", name, *b.Resource.Text)), err
	case b.Type == "resource" && b.Resource != nil && b.Resource.Blob != "":
		return responses.Part{Type: responses.PartInputFile, FileName: filepath.Base(s.seen(b.Resource.URI)),
			FileData: dataURL(b.Resource.MimeType, b.Resource.Blob)}, nil
	}
	return part, errors.New("it must be text, an image, a link to a resource or a resource")
}

func dataURL(mime, data string) string { return "data:" + mime + ";base64," + data }

// seen is what the agent calls a file of the editor: by its path in the workspace. It sees no others.
func (s *session) seen(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	rel, err := filepath.Rel(s.cwd, u.Path)
	if err != nil || !filepath.IsLocal(rel) {
		return uri
	}
	return rel
}
