package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"holon/internal/httpserver"
	"holon/responses"
)

const (
	maxBody = 64 << 20
	// smallBody is what any request may hold in memory. Of the requests of one server that have more, maxLarge are
	// handled at a time, so that a container cannot fill the memory of the host.
	smallBody = 1 << 20
	maxLarge  = 4
	maxDepth  = 512 // of a body's JSON
)

var (
	errBody    = errors.New("the body is not the JSON that providers take")
	errFeature = errors.New("what the provider would do itself is not allowed")
)

func malformed(what string) error { return fmt.Errorf("%w: %s", errBody, what) }

func unallowed(what string) error { return fmt.Errorf("%w: %s", errFeature, what) }

// requestBody is the body of a request. It is read and checked before anything is sent.
type requestBody struct {
	data  []byte
	model string
	text  int64 // bytes of strings that the model reads
	wide  bool  // something can be more tokens than it has bytes
}

// readBody reads the body of r and checks it against a grammar. Its error is a *responses.Error where the body is to
// blame. release is to be called when the body is not needed any more.
func (s *Server) readBody(ctx context.Context, r *http.Request, grammar *rule) (b *requestBody, release func(),
	err error) {
	release = func() {}
	switch {
	case r.ContentLength > maxBody:
		return nil, release, tooLarge()
	case !httpserver.IsJSON(r):
		return nil, release, responses.Invalid("Content-Type", responses.CodeUnsupportedMediaType,
			"the body must be application/json")
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, smallBody))
	if err == nil && len(data) == smallBody {
		select {
		case s.large <- struct{}{}:
			release = func() { <-s.large }
		case <-ctx.Done():
			return nil, release, context.Cause(ctx)
		}
		buffer := bytes.NewBuffer(data)
		_, err = buffer.ReadFrom(io.LimitReader(r.Body, maxBody+1-smallBody))
		data = buffer.Bytes()
	}
	if err != nil {
		return nil, release, fmt.Errorf("read the body: %w", err)
	}
	if len(data) > maxBody {
		return nil, release, tooLarge()
	}
	b, err = parseBody(data, grammar)
	if errors.Is(err, errFeature) {
		refusal := forbidden(err.Error())
		refusal.Param, refusal.Hint = "body", "the operator can allow it with providers.NAME.allow_hosted"
		return nil, release, refusal
	}
	if err != nil {
		return nil, release, responses.Invalid("body", responses.CodeInvalidJSON, err.Error())
	}
	return b, release, nil
}

// parseBody checks a JSON body against a grammar. It is strict where a provider's parser could read another document
// into the same bytes: one object of well-formed UTF-8, no comments, known keys in their plain spelling, each once.
// Within values that are free, keys are not checked. Nothing of the body is copied.
func parseBody(data []byte, grammar *rule) (*requestBody, error) {
	p := parser{Decoder: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true)),
		body: &requestBody{data: data}}
	if p.PeekKind() != '{' {
		return nil, malformed("it is not an object")
	}
	if err := p.value(grammar); err != nil {
		return nil, err
	}
	if _, err := p.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, malformed("something follows the object")
	}
	if !p.named {
		return nil, malformed("it names no model")
	}
	return p.body, nil
}

// parser checks the tokens of a body.
type parser struct {
	*jsontext.Decoder
	body  *requestBody
	named bool // the model was found
}

func (p *parser) value(r *rule) error {
	p.body.wide = p.body.wide || r.wide
	switch kind := p.PeekKind(); {
	case kind != '{' && kind != '[':
		raw, err := p.ReadValue()
		if err != nil {
			return malformed(err.Error())
		}
		return p.scalar(r, raw)
	case p.StackDepth() == maxDepth:
		return malformed("it is nested too deep")
	case kind == '{' && (r.free || r.keys != nil):
		return p.object(r)
	case kind == '[' && (r.free || r.items != nil):
		return p.array(r)
	default:
		return unallowed(fmt.Sprintf("%q as %s", string(kind), r.name))
	}
}

func (p *parser) object(r *rule) error {
	_, err := p.ReadToken()
	seen := make(map[string]bool)
	for err == nil && p.PeekKind() != '}' {
		var within *rule
		if within, err = p.member(r, seen); err == nil {
			err = p.value(within)
		}
	}
	if err == nil {
		_, err = p.ReadToken()
	}
	return err
}

// member reads a key and returns the rule of its value.
func (p *parser) member(r *rule, seen map[string]bool) (*rule, error) {
	raw, err := p.ReadValue()
	if err != nil {
		return nil, malformed(err.Error())
	}
	if r.free {
		return r, nil
	}
	name, _ := jsontext.AppendUnquote(nil, raw) // it is a string
	if len(name) != len(raw)-2 {
		return nil, malformed(fmt.Sprintf("the key %.40q is written with an escape", name))
	}
	return r.member(string(name), seen)
}

func (p *parser) array(r *rule) error {
	within := r.items
	if r.free {
		within = r
	}
	_, err := p.ReadToken()
	for err == nil && p.PeekKind() != ']' {
		err = p.value(within)
	}
	if err == nil {
		_, err = p.ReadToken()
	}
	return err
}

// scalar checks a string, a number or a literal.
func (p *parser) scalar(r *rule, raw jsontext.Value) error {
	isText := raw.Kind() == '"'
	switch {
	case !isText && (r.text == modelText || r.text == wordText):
		return malformed("its model, or a type, is not a string")
	case !isText && r.only != "" && string(raw) != r.only:
		return unallowed(fmt.Sprintf("%s: %.40s", r.name, raw))
	case !isText:
		return nil
	case r.text == noText && !r.free:
		return unallowed("a string as " + r.name)
	}
	if r.read {
		p.body.text += int64(len(raw) - 2)
	}
	if r.text <= anyText {
		return nil
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	if r.text == modelText {
		p.body.model, p.named = string(text), true
	}
	return r.check(string(text))
}
