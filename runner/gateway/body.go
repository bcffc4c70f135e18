package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

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
// Within values that are free, keys are not checked.
func parseBody(data []byte, grammar *rule) (*requestBody, error) {
	if !utf8.Valid(data) {
		return nil, malformed("it is not UTF-8")
	}
	if err := json.Unmarshal(data, &json.RawMessage{}); err != nil { // a Decoder is less strict between values
		return nil, malformed(err.Error())
	}
	b := &requestBody{data: data}
	p := parser{Decoder: json.NewDecoder(bytes.NewReader(data)), body: b}
	p.UseNumber()
	if token, err := p.Token(); err != nil || token != json.Delim('{') {
		return nil, malformed("it is not an object")
	}
	if err := p.object(grammar, 1); err != nil {
		return nil, err
	}
	if b.model == "" && !p.named {
		return nil, malformed("it names no model")
	}
	return b, nil
}

// parser checks the tokens of a body that is valid JSON.
type parser struct {
	*json.Decoder
	body  *requestBody
	named bool // the model was found
}

func (p *parser) value(r *rule, depth int) error {
	token, err := p.Token()
	if err != nil {
		return malformed(err.Error())
	}
	p.body.wide = p.body.wide || r.wide
	switch t := token.(type) {
	case json.Delim:
		switch {
		case depth > maxDepth:
			return malformed("it is nested too deep")
		case t == '{' && (r.free || r.keys != nil):
			return p.object(r, depth)
		case t == '[' && (r.free || r.items != nil):
			return p.array(r, depth)
		}
		return unallowed(fmt.Sprintf("%q as %s", string(t), r.name))
	case string:
		return p.string(r, t)
	}
	switch {
	case r.text == modelText || r.text == wordText:
		return malformed("its model, or a type, is not a string")
	case r.only != "" && fmt.Sprint(token) != r.only:
		return unallowed(fmt.Sprintf("%s: %.40v", r.name, token))
	}
	return nil
}

// object checks the members of an object whose bracket was read.
func (p *parser) object(r *rule, depth int) error {
	seen := make(map[string]bool)
	for p.More() {
		token, err := p.Token()
		name, _ := token.(string)
		if err != nil {
			return malformed(err.Error())
		}
		within := r
		if !r.free {
			if !bytes.HasSuffix(p.body.data[:p.InputOffset()], []byte(`"`+name+`"`)) {
				return malformed(fmt.Sprintf("the key %.40q is written with an escape", name))
			}
			if within, err = r.member(name, seen); err != nil {
				return err
			}
		}
		if err := p.value(within, depth+1); err != nil {
			return err
		}
	}
	_, err := p.Token()
	return err
}

// array checks the items of an array whose bracket was read.
func (p *parser) array(r *rule, depth int) error {
	within := r
	if !r.free {
		within = r.items
	}
	for p.More() {
		if err := p.value(within, depth+1); err != nil {
			return err
		}
	}
	_, err := p.Token()
	return err
}

func (p *parser) string(r *rule, text string) error {
	if r.text == noText && !r.free {
		return unallowed("a string as " + r.name)
	}
	if r.read {
		p.body.text += int64(len(text))
	}
	if r.text == modelText {
		p.body.model, p.named = text, true
	}
	return r.check(text)
}
