package modelaccess

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"holon/internal/duration"
	"holon/internal/providers"
	"holon/internal/unixsocket"
	"holon/responses"
	"holon/runner/gateway"
	"holon/runner/settings"
	"holon/state"
)

const (
	checkTime   = 60 * time.Second
	checkAnswer = 1 << 20
	checkTokens = 16 // of the answer; the least that all providers take
)

// Checked is what asking a model for a word showed.
type Checked struct {
	Ref       string         `json:"ref"`
	OK        bool           `json:"ok"`
	LatencyMS int64          `json:"latency_ms"` // to the end of the answer
	Status    int            `json:"status"`     // of HTTP; 0: no answer
	Error     *state.Failure `json:"error"`
}

// Check asks a model for a word, by the way that a run would: through a gateway
// on a socket. It costs what a few tokens cost.
func (h *Host) Check(ctx context.Context, ref string) Checked {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	c := Checked{Ref: ref}
	start := time.Now()
	err := h.ask(ctx, ref, &c)
	c.LatencyMS = time.Since(start).Milliseconds()
	if errors.Is(err, context.DeadlineExceeded) {
		err = &state.Error{Code: "timeout", Param: ref,
			Message: fmt.Sprintf("did not answer within %s", duration.Text(checkTime)),
			Hint:    "try again, or look at the provider's status page"}
	}
	c.Error, c.OK = failure(err), err == nil
	return c
}

func (h *Host) ask(ctx context.Context, ref string, c *Checked) (err error) {
	name, model, _ := providers.SplitRef(ref)
	if name == providers.Scripted {
		return nil // a scenario needs no provider
	}
	access, err := h.Open(ctx, []string{ref}, "REF")
	if err != nil {
		return err
	}
	defer access.Close()
	dir, err := os.MkdirTemp("", "holon-check-")
	if err != nil {
		return fmt.Errorf("make a directory for the socket: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "model.sock")
	server, err := access.Gateway.Serve(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close(context.WithoutCancel(ctx))) }()

	token, hash := gateway.NewToken()
	lease, err := server.Grant(gateway.Grant{TurnID: "check", Token: hash, Models: []string{ref}})
	if err != nil {
		return err
	}
	defer lease.Revoke()
	p, _ := h.Settings.Provider(name)
	req, err := request(ctx, p, model)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	transport := &http.Transport{DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return unixsocket.Dial(ctx, path)
		}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	defer resp.Body.Close()
	c.Status = resp.StatusCode
	body, err := io.ReadAll(io.LimitReader(resp.Body, checkAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	known := lease.Trouble()
	if known != nil && resp.Header.Get(providers.GatewayHeader) != "" {
		c.Status = 0 // which the provider did not send
		return &state.Error{Code: state.Code(known.Code), Param: known.Param, Message: known.Message, Hint: known.Hint}
	}
	return judge(p, resp.StatusCode, body, known)
}

// request is the smallest that a contract has.
func request(ctx context.Context, p settings.Provider, model string) (*http.Request, error) {
	const text = "Answer with the word ok."
	user := []any{map[string]any{"role": "user", "content": text}}
	var body map[string]any
	switch p.Contract {
	case providers.ChatCompletions:
		known, _ := providers.Find(p.Name)
		body = map[string]any{"model": model, "messages": user,
			cmp.Or(known.Dialect.MaxTokensKey, "max_tokens"): checkTokens}
	case providers.AnthropicMessages:
		body = map[string]any{"model": model, "messages": user, "max_tokens": checkTokens}
	case providers.OpenAICodexResponses:
		message := map[string]any{"type": "message", "role": "user",
			"content": []any{map[string]any{"type": "input_text", "text": text}}}
		body = map[string]any{"model": model, "instructions": text, "input": []any{message}, "tools": []any{},
			"tool_choice":         "auto",
			"parallel_tool_calls": false, "reasoning": nil, "store": false, "stream": true, "include": []any{}}
	default:
		body = map[string]any{"model": model, "input": text, "max_output_tokens": checkTokens, "store": false}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/"+p.Name+p.Contract.Path(),
		bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if p.Contract == providers.AnthropicMessages {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	return req, nil
}

// judge says what is wrong with an answer. known is what the gateway knows of it, if anything.
func judge(p settings.Provider, status int, body []byte, known *state.Failure) error {
	if status == http.StatusOK && (json.Valid(body) || bytes.Contains(body, []byte("data:"))) {
		return nil
	}
	if status == http.StatusOK {
		return &state.Error{Code: "protocol", Param: p.Name,
			Message: "answered with something that is not an answer of " + string(p.Contract),
			Hint:    "see providers." + p.Name + ".base_url and .contract"}
	}
	e := &state.Error{Code: responses.CodeModelError, Param: p.Name,
		Message: fmt.Sprintf("answered with status %d", status)}
	if known != nil {
		e.Code, e.Param, e.Hint = state.Code(known.Code), known.Param, known.Hint
	}
	if said := providerMessage(body); said != "" {
		e.Message += ": " + strconv.Quote(said)
	}
	return e
}

// providerMessage returns the text of an error in the usual forms, in one line.
func providerMessage(body []byte) string {
	var v struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	var inner struct {
		Message string `json:"message"`
	}
	text := v.Message
	if json.Unmarshal(v.Error, &inner) == nil && inner.Message != "" {
		text = inner.Message
	} else if text == "" {
		_ = json.Unmarshal(v.Error, &text) // it stays empty if it is not a string
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
