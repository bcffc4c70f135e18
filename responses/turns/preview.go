package turns

import (
	"encoding/json"
	"errors"
	"fmt"

	"holon/responses"
)

// ObjectPreview is the object of a Preview.
const ObjectPreview = "response.preview"

// Preview is what a model would be asked first if a request were sent to POST /responses (POST /responses/preview).
// Lists are never null. Known secrets are redacted in it.
type Preview struct {
	Object             string                     `json:"object"` // ObjectPreview
	Model              string                     `json:"model"`  // provider/model
	ModelFallbacks     []string                   `json:"model_fallbacks"`
	SessionID          string                     `json:"session_id"`
	PreviousResponseID string                     `json:"previous_response_id,omitzero"`
	PromptCacheKey     string                     `json:"prompt_cache_key,omitzero"` // "": none is sent
	Reasoning          *responses.ReasoningConfig `json:"reasoning,omitzero"`
	MaxOutputTokens    *int                       `json:"max_output_tokens,omitzero"`
	ContextWindow      int                        `json:"context_window,omitzero"` // in tokens; 0: not known
	InputTokens        int                        `json:"input_tokens"`            // an estimate
	WorkDir            string                     `json:"work_dir"`                // where commands start
	InputDir           string                     `json:"input_dir,omitzero"`
	Isolation          string                     `json:"isolation"` // as in Environment
	Skills             []string                   `json:"skills"`
	Sources            []PreviewSource            `json:"sources"` // of what agentd itself says, in order
	Instructions       string                     `json:"instructions"`
	Input              responses.Items            `json:"input"` // the conversation, its newest item last
	Tools              []PreviewTool              `json:"tools"`
	Notes              []string                   `json:"notes"` // what was cut or left out
}

// PreviewSource is a part of what agentd itself says: its policy, an AGENTS.md, the skills.
type PreviewSource struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Path   string `json:"path,omitzero"` // of the file that it comes from
	Bytes  int    `json:"bytes"`
	Digest string `json:"digest"`
}

// PreviewTool is a tool that the model may call.
type PreviewTool struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"` // container, client, or the name of an MCP server; the host's is "host"
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitzero"` // JSON Schema
}

// DecodePreview reads the answer of POST /responses/preview.
func DecodePreview(data []byte) (Preview, error) {
	var p Preview
	if err := decode(data, &p); err != nil {
		return Preview{}, fmt.Errorf("decode a preview: %w", err)
	}
	if p.Object != ObjectPreview {
		return Preview{}, fmt.Errorf("the object is %.64q, not %s", p.Object, ObjectPreview)
	}
	if p.Model == "" {
		return Preview{}, errors.New("a preview needs a model")
	}
	return p, nil
}
