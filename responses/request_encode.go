package responses

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// MarshalJSON writes a body from which DecodeRequest reads r again, but for
// Digest and for the places that MCPTool.Param names. Keys whose value is the
// default are absent.
func (r Request) MarshalJSON() ([]byte, error) {
	w := wireRequest{
		Model:              r.Model,
		PreviousResponseID: nullable(r.PreviousResponseID),
		Instructions:       r.Instructions,
		Include:            r.Include,
		ToolChoice:         unless(r.ToolChoice, ToolChoice{}),
		ParallelToolCalls:  unless(r.ParallelToolCalls, true),
		MaxToolCalls:       r.MaxToolCalls,
		MaxOutputTokens:    r.MaxOutputTokens,
		TopLogprobs:        unless(r.TopLogprobs, 0),
		Reasoning:          r.Reasoning,
		Stream:             r.Stream,
		Background:         r.Background,
		Store:              unless(r.Store, true),
		PromptCacheKey:     r.PromptCacheKey,
		SafetyIdentifier:   r.SafetyIdentifier,
		Holon:              unless(r.Holon, Holon{}),
	}
	set := func(key **float64, value float64, given bool) {
		if given {
			*key = &value
		}
	}
	set(&w.Temperature, r.Temperature, r.Sampling.Temperature)
	set(&w.TopP, r.TopP, r.Sampling.TopP)
	set(&w.PresencePenalty, r.PresencePenalty, r.Sampling.PresencePenalty)
	set(&w.FrequencyPenalty, r.FrequencyPenalty, r.Sampling.FrequencyPenalty)
	if r.Truncation != defaultTruncation {
		w.Truncation = r.Truncation
	}
	if r.ServiceTier != defaultServiceTier {
		w.ServiceTier = r.ServiceTier
	}
	if text := (wireText{unless(r.Text.Format, TextFormat{}), r.Text.Verbosity}); text != (wireText{}) {
		w.Text = &text
	}
	if len(r.Metadata) > 0 {
		w.Metadata = make(map[string]json.RawMessage, len(r.Metadata))
		for key, value := range r.Metadata {
			w.Metadata[key] = appendString(nil, value)
		}
	}
	var err error
	if r.Input != nil {
		if w.Input, err = marshal(r.Input); err != nil {
			return nil, fmt.Errorf("encode input: %w", err)
		}
	}
	if w.Tools, err = r.encodeTools(); err != nil {
		return nil, fmt.Errorf("encode tools: %w", err)
	}
	return marshal(w)
}

// encodeTools writes the function tools, those of type mcp, and the one by which
// ShowToolCalls is asked for where include does not.
func (r *Request) encodeTools() ([]json.RawMessage, error) {
	var list []any
	for _, t := range r.Tools {
		list = append(list, t)
	}
	for _, t := range r.MCP {
		list = append(list, t)
	}
	for _, kind := range r.IgnoredTools {
		list = append(list, map[string]string{"type": kind})
	}
	if r.ShowToolCalls && !slices.Contains(r.Include, IncludeToolCalls) {
		list = append(list, map[string]string{"type": ItemToolCall})
	}
	var raws []json.RawMessage
	for _, t := range list {
		raw, err := marshal(t)
		if err != nil {
			return nil, err
		}
		raws = append(raws, raw)
	}
	return raws, nil
}

// unless returns nil when value is the default.
func unless[T any](value, def T) *T {
	if reflect.DeepEqual(value, def) {
		return nil
	}
	return &value
}
