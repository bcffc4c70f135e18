package gateway

import (
	"fmt"
	"slices"
	"strings"

	"holon/internal/providers"
)

// fetchURLs is the word of Provider.AllowHosted for content that is given by an
// http or https URL, which the provider fetches.
const fetchURLs = "fetch_urls"

// rule says what one value of a request's body may be. A grammar is a tree of
// rules that has every key that agentd sends and no other: a key that is missing
// here could make the provider search, fetch, run or remember something.
type rule struct {
	name  string // for messages
	free  bool   // any JSON, which causes nothing
	text  textRule
	words []string         // of wordText
	only  string           // a literal, and nothing else
	keys  map[string]*rule // of an object; nil: it may be none
	loose bool             // the object may have further keys, with any values
	items *rule            // of an array; nil: it may be none

	read bool // the model reads its strings
	wide bool // it can be more tokens than it has bytes, as content of dataText can
}

type textRule uint8

// Rules for strings.
const (
	noText textRule = iota
	anyText
	wordText  // one of words, and nothing but a string
	dataText  // a data URL or base64
	modelText // the model, and nothing but a string
)

// keyed is a key and its rule.
type keyed struct {
	key  string
	rule *rule
}

func object(name string, keys ...keyed) *rule {
	r := &rule{name: name, keys: make(map[string]*rule, len(keys))}
	for _, k := range keys {
		r.keys[k.key] = k.rule
	}
	return r
}

func array(of *rule) *rule { return &rule{name: of.name, items: of} }

// or lets a rule be a string as well.
func (r *rule) or(text textRule) *rule {
	r.text, r.read = text, text == anyText
	return r
}

// each gives several keys one rule.
func each(r *rule, names ...string) (list []keyed) {
	for _, name := range names {
		list = append(list, keyed{name, r})
	}
	return list
}

var (
	free     = &rule{free: true} // labels, and what a provider sealed
	setting  = &rule{name: "a setting", text: anyText}
	shown    = &rule{free: true, read: true} // schemas and arguments
	prose    = &rule{text: anyText, read: true}
	named    = &rule{text: modelText}
	large    = &rule{text: anyText, wide: true} // a picture
	effort   = object("reasoning", each(setting, "effort", "summary")...)
	sampling = slices.Concat(each(setting, "stream", "temperature", "top_p", "service_tier"), each(free, "metadata"),
		each(toolChoice(), "tool_choice"))
	penalties = slices.Concat(each(setting, "presence_penalty", "frequency_penalty", "parallel_tool_calls",
		"top_logprobs"), each(effort, "reasoning"))
)

// toolChoice is which tools the model may or has to call, in all contracts: a
// hosted one would be called without being offered.
func toolChoice() *rule {
	kinds := words("auto", "none", "required", "any", "tool", "function", "custom", "allowed_tools")
	function := object("function", each(setting, "name")...)
	tool := object("tools", slices.Concat(each(words("function", "custom"), "type"), each(setting, "name"),
		each(function, "function"))...)
	choice := object("tool_choice", slices.Concat(each(kinds, "type"),
		each(setting, "name", "mode", "disable_parallel_tool_use"),
		each(function, "function"), each(array(tool), "tools"))...)
	choice.text, choice.words = wordText, kinds.words
	return choice
}

func words(list ...string) *rule { return &rule{text: wordText, words: list} }

// grammarOf returns the grammar of what a provider that speaks a contract may be sent.
func grammarOf(c providers.Contract, allow []string) *rule {
	urls := &rule{text: dataText, wide: true}
	if slices.Contains(allow, fetchURLs) {
		urls = large
	}
	var g *rule
	switch c {
	case providers.ChatCompletions:
		g = chatGrammar(urls)
	case providers.AnthropicMessages:
		g = messagesGrammar(urls)
	default:
		g = responsesGrammar(urls)
	}
	g.open(allow)
	return g
}

// open lets tools of the provider's own and further keys pass that the operator
// allows.
func (r *rule) open(allow []string) {
	tool := r.keys["tools"].items
	if _, ok := r.keys["store"]; ok && slices.Contains(allow, "store") {
		r.keys["store"] = setting
	}
	for _, name := range allow {
		if _, known := r.keys[name]; name != fetchURLs && !known {
			r.keys[name] = &rule{free: true, wide: true}
			tool.loose, tool.wide = true, true
			kinds := tool.keys["type"]
			kinds.words = append(kinds.words, name)
		}
	}
}

// responsesGrammar is that of the Responses API, in all its contracts.
func responsesGrammar(urls *rule) *rule {
	part := object("content", slices.Concat(each(prose, "text", "refusal"),
		each(urls, "image_url", "file_data", "file_url"),
		each(setting, "detail", "filename"), each(free, "annotations", "logprobs"),
		each(words("input_text", "output_text", "text", "refusal", "input_image", "input_file", "summary_text",
			"reasoning_text"), "type"))...)
	item := object("input", slices.Concat(each(array(part).or(anyText), "content", "output"),
		each(prose, "arguments", "input", "name"),
		each(array(part), "summary"), each(setting, "role", "phase", "call_id"), each(free, "encrypted_content"),
		each(words("message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
			"custom_tool_call_output", "compaction"), "type"))...)
	tool := object("tools", slices.Concat(each(words("function", "custom"), "type"), each(prose, "name", "description"),
		each(shown, "parameters"), each(setting, "strict"),
		each(object("format", each(setting, "type", "syntax", "definition")...), "format"))...)
	format := object("format", slices.Concat(each(setting, "type", "name", "description", "strict"),
		each(shown, "schema"))...)
	text := object("text", slices.Concat(each(format, "format"), each(setting, "verbosity"))...)
	return object("the request", slices.Concat(each(named, "model"), each(prose, "instructions"),
		each(array(item).or(anyText), "input"),
		each(array(tool), "tools"), sampling, penalties, each(text, "text"),
		each(&rule{name: "store", only: "false"}, "store"),
		each(array(&rule{name: "include", text: wordText,
			words: []string{"reasoning.encrypted_content", "message.output_text.logprobs"}}), "include"),
		each(setting, "max_output_tokens", "prompt_cache_key", "safety_identifier"))...)
}

// chatGrammar is that of Chat Completions, in all dialects.
func chatGrammar(urls *rule) *rule {
	image := object("image_url", slices.Concat(each(urls, "url"), each(setting, "detail"))...).or(dataText)
	part := object("content", slices.Concat(each(prose, "text"), each(image, "image_url"),
		each(object("file", slices.Concat(each(setting, "filename"), each(urls, "file_data"))...), "file"),
		each(words("text", "image_url", "file"), "type"))...)
	called := object("function", each(prose, "name", "arguments")...)
	call := object("tool_calls", slices.Concat(each(words("function"), "type"), each(called, "function"),
		each(setting, "id"), each(free, "extra_content"))...)
	message := object("messages", slices.Concat(each(array(part).or(anyText), "content"),
		each(array(call), "tool_calls"),
		each(setting, "role", "tool_call_id"), each(free, "reasoning_content", "reasoning", "reasoning_details"))...)
	function := object("function", slices.Concat(each(prose, "name", "description"), each(shown, "parameters"),
		each(setting, "strict"))...)
	tool := object("tools", slices.Concat(each(words("function"), "type"), each(function, "function"))...)
	schema := object("json_schema", slices.Concat(each(setting, "name", "description", "strict"),
		each(shown, "schema"))...)
	format := object("response_format", slices.Concat(each(setting, "type"), each(schema, "json_schema"))...)
	return object("the request", slices.Concat(each(named, "model"), each(array(message), "messages"),
		each(array(tool), "tools"), sampling, penalties,
		each(format, "response_format"), each(object("stream_options", each(setting, "include_usage")...),
			"stream_options"),
		each(setting, "max_tokens", "max_completion_tokens", "reasoning_effort", "logprobs"))...)
}

// messagesGrammar is that of the Messages API.
func messagesGrammar(urls *rule) *rule {
	cache := object("cache_control", each(setting, "type", "ttl")...)
	source := object("source", slices.Concat(each(words("base64", "text", "url"), "type"), each(setting, "media_type"),
		each(large, "data"), each(urls, "url"))...)
	block := object("content", slices.Concat(each(prose, "text", "title", "name"), each(source, "source"),
		each(shown, "input"),
		each(free, "thinking", "signature", "data"), each(setting, "id", "tool_use_id", "is_error"),
		each(cache, "cache_control"),
		each(words("text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"),
			"type"))...)
	blocks := array(block).or(anyText)
	block.keys["content"] = blocks
	message := object("messages", slices.Concat(each(setting, "role"), each(blocks, "content"))...)
	tool := object("tools", slices.Concat(each(words("custom"), "type"), each(prose, "name", "description"),
		each(shown, "input_schema"), each(setting, "strict"),
		each(cache, "cache_control"))...)
	binding := object("block_binding", each(setting, "prefix_mismatch_behavior")...)
	thinking := object("thinking", slices.Concat(each(setting, "type", "budget_tokens", "display"),
		each(binding, "block_binding"))...)
	format := object("format", slices.Concat(each(setting, "type"), each(shown, "schema"))...)
	output := object("output_config", slices.Concat(each(setting, "effort"), each(format, "format"))...)
	return object("the request", slices.Concat(each(named, "model"), each(array(message), "messages"),
		each(array(tool), "tools"),
		each(blocks, "system"), sampling, each(setting, "max_tokens"), each(thinking, "thinking"),
		each(output, "output_config"))...)
}

// member returns the rule of a key, and marks in seen that it was there.
func (r *rule) member(name string, seen map[string]bool) (*rule, error) {
	if m, ok := r.keys[name]; ok {
		if seen[name] {
			return nil, malformed(fmt.Sprintf("the key %q is repeated in %s", name, r.name))
		}
		seen[name] = true
		return m, nil
	}
	for known := range r.keys {
		if strings.EqualFold(known, name) {
			return nil, malformed(fmt.Sprintf("%.40q in %s is another spelling of %q", name, r.name, known))
		}
	}
	if r.loose {
		return free, nil
	}
	return nil, unallowed(fmt.Sprintf("the key %.40q in %s", name, r.name))
}

// check refuses a string that the rule does not allow. Of dataText it looks at the beginning.
func (r *rule) check(text string) error {
	switch r.text {
	case wordText:
		if !slices.Contains(r.words, text) {
			return unallowed(fmt.Sprintf("the type %.40q", text))
		}
	case dataText:
		if !strings.HasPrefix(text, "data:") && strings.Trim(text[:min(len(text), maxPrefix)], base64Bytes) != "" {
			return unallowed("content that the provider would fetch")
		}
	}
	return nil
}

const maxPrefix = 16 // bytes that tell how content is given

const base64Bytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
