package control

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/internal/picture"
	"holon/internal/visible"
	"holon/responses"
	"holon/runner/agent/rules"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// Bounds of what the operator sends with a text.
const (
	maxParts    = 32 << 20 // bytes of a body with parts
	maxFiles    = 32
	maxFileName = 200 // bytes
)

// promptBody is what the operator says to an agent in a text and parts. Files and pictures are put into the agent's
// home before the message is recorded, and its text names them; the request of its turn has the pictures, which a model
// is shown. A message with the key of an earlier one names the files of that.
func (s *Server) promptBody(ctx context.Context, agentID, key, text string, parts []wire.Part) (ledger.Body,
	json.RawMessage,
	error) {
	if len(parts) > maxFiles {
		return ledger.Body{}, nil, invalid("parts", fmt.Sprintf("there are %d parts", len(parts)),
			fmt.Sprintf("send at most %d with a message", maxFiles))
	}
	texts := []string{text}
	var shown responses.Parts
	var earlier ledger.Message
	if key != "" && len(parts) > 0 {
		if err := s.store.View(ctx, func(v ledger.View) (err error) {
			earlier, _, err = v.MessageByKey(agentID, key)
			return err
		}); err != nil {
			return ledger.Body{}, nil, err
		}
	}
	for i, p := range parts {
		param := fmt.Sprintf("parts[%d]", i)
		if p.Type == responses.PartInputText {
			texts = append(texts, p.Text)
			continue
		}
		line, image, err := s.keepPart(ctx, agentID, param, p, earlier.Body.Text)
		if err != nil {
			return ledger.Body{}, nil, err
		}
		texts, shown = append(texts, line), append(shown, image...)
	}
	if text = strings.TrimSpace(strings.Join(texts, "\n\n")); text == "" {
		return ledger.Body{}, nil, missing("text", "say what the agent is to do")
	}
	if len(parts) == 0 {
		text = texts[0] // as it is
	}
	if len(text) >= maxPrompt {
		return ledger.Body{}, nil, &state.Error{Code: wire.CodeTooLarge, Param: "text",
			Message: fmt.Sprintf("the text has %d bytes, and a message less than %d", len(text), maxPrompt),
			Hint:    "send the rest as a file"}
	}
	body := ledger.Body{Type: "text", Text: text}
	if len(shown) == 0 {
		return body, nil, nil
	}
	request, err := responses.Request{Input: responses.Items{&responses.Message{Role: responses.RoleUser,
		Status: responses.ItemCompleted, Content: shown}}}.MarshalJSON()
	if err != nil {
		return ledger.Body{}, nil, fmt.Errorf("keep the pictures of a message: %w", err)
	}
	return body, request, nil
}

// keepPart puts the file of a part into the home of an agent. It returns what the message says of it, and the picture
// that it is, if it is one. earlier is the text of the message that the same request made before.
func (s *Server) keepPart(ctx context.Context, agentID, param string, p wire.Part, earlier string) (line string,
	image responses.Parts, err error) {
	var data []byte
	switch p.Type {
	case responses.PartInputImage:
		data, err = dataOf(param+".image_url", p.ImageURL)
	case responses.PartInputFile:
		data, err = dataOf(param+".file_data", p.FileData)
	default:
		err = invalid(param+".type", fmt.Sprintf("%.40q is not a type of a part", p.Type),
			"use input_text, input_image or input_file")
	}
	if err != nil {
		return "", nil, err
	}
	info, pictureErr := picture.Examine(data)
	if p.Type == responses.PartInputImage && pictureErr != nil {
		return "", nil, invalid(param+".image_url", "the picture "+pictureErr.Error(),
			"send a PNG, JPEG, WebP or GIF, or send it as input_file")
	}
	name := p.FileName
	if name == "" && pictureErr == nil {
		name = "picture." + strings.TrimPrefix(info.MediaType, "image/")
	}
	if err := checkFileName(param+".filename", name); err != nil {
		return "", nil, err
	}
	if s.opts.KeepFile == nil {
		return "", nil, invalid(param, "agents take no files here", "send text")
	}
	if err := s.addressee(ctx, agentID, true); err != nil {
		return "", nil, err
	}
	sent := rules.SentFiles(earlier)
	at, err := s.opts.KeepFile(agentID, name, data, func(at string) bool { return slices.Contains(sent, at) })
	if err != nil {
		return "", nil, err
	}
	if pictureErr == nil {
		image = responses.Parts{{Type: responses.PartInputImage, Detail: "auto",
			ImageURL: "data:" + info.MediaType + ";base64," + base64.StdEncoding.EncodeToString(data)}}
	}
	return rules.SentFile(at, int64(len(data))), image, nil
}

// dataOf returns what a data URL holds.
func dataOf(param, url string) ([]byte, error) {
	if url == "" {
		return nil, missing(param, "send the data as data:TYPE;base64,DATA")
	}
	head, text, _ := strings.Cut(url, ",")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return nil, invalid(param, param+" is not a data URL with base64", "send the data as data:TYPE;base64,DATA")
	}
	return data, nil
}

// checkFileName refuses what cannot be the name of a file, or would not be one line.
func checkFileName(param, name string) error {
	switch {
	case name == "":
		return missing(param, "name the file")
	case len(name) > maxFileName || path.Base(name) != name || strings.HasPrefix(name, ".") || !utf8.ValidString(name) ||
		visible.Name(name) != name:
		return invalid(param, fmt.Sprintf("%.100q is not taken as the name of a file", name),
			fmt.Sprintf("use at most %d bytes without a directory, a quote or a control character, and no dot at the beginning",
				maxFileName))
	}
	return nil
}

// promptOf is a message of the operator.
func (s *Server) promptOf(r *http.Request, agentID, key string, priority ledger.Priority, text string,
	parts []wire.Part) (ledger.Message, error) {
	body, request, err := s.promptBody(r.Context(), agentID, key, text, parts)
	return ledger.Message{AgentID: agentID, Key: key, Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Priority: priority, Body: body, Request: request,
		Surface: ledger.SurfaceControlPrompt, AdmissionContext: listenerOf(r.Context()).operatorContext()}, err
}
