package responses

import (
	"encoding/json"
	"fmt"
)

// Types of content parts (Open Responses, "Content").
const (
	PartInputText     = "input_text"
	PartInputImage    = "input_image"
	PartInputFile     = "input_file"
	PartInputVideo    = "input_video"
	PartOutputText    = "output_text"
	PartRefusal       = "refusal"
	PartReasoningText = "reasoning_text"
	PartSummaryText   = "summary_text"
	PartText          = "text"
)

// Part is one content part of a message, a reasoning item or a call's output.
// Type decides which of the other fields have a meaning; the rest stay zero.
type Part struct {
	Type        string
	Text        string       // input_text, output_text, reasoning_text, summary_text, text
	Refusal     string       // refusal
	Annotations []Annotation // output_text
	Logprobs    []LogProb    // output_text: only when the request asked for them

	ImageURL string // input_image: an https URL or a data URL; "" is written as null
	Detail   string // input_image: low, high or auto (the default)
	FileName string // input_file
	FileData string // input_file: a data URL, at most 32 MiB
	FileURL  string // input_file: an https URL
	VideoURL string // input_video: an https URL or a data URL
}

// Annotation is a url_citation, the only annotation the protocol has.
type Annotation struct {
	Type       string `json:"type"`
	URL        string `json:"url"`
	Title      string `json:"title"`
	StartIndex int    `json:"start_index"`
	EndIndex   int    `json:"end_index"`
}

// LogProb is the probability of a token and of its alternatives.
type LogProb struct {
	Token       string       `json:"token"`
	Logprob     float64      `json:"logprob"`
	Bytes       []int        `json:"bytes"` // the token's UTF-8
	TopLogprobs []TopLogProb `json:"top_logprobs"`
}

// TopLogProb is an alternative to a token.
type TopLogProb struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func (l LogProb) appendJSON(dst []byte) ([]byte, error) {
	o := begin(dst)
	o.str("token", l.Token)
	o.value("logprob", l.Logprob)
	o.value("bytes", nonNil(l.Bytes))
	list(o, "top_logprobs", l.TopLogprobs)
	return o.end()
}

func (l TopLogProb) appendJSON(dst []byte) ([]byte, error) {
	o := begin(dst)
	o.str("token", l.Token)
	o.value("logprob", l.Logprob)
	o.value("bytes", nonNil(l.Bytes))
	return o.end()
}

func (a Annotation) appendJSON(dst []byte) ([]byte, error) {
	b, err := marshal(a)
	return append(dst, b...), err
}

// OutputText returns a part with text of the model.
func OutputText(text string) Part { return Part{Type: PartOutputText, Text: text} }

// InputText returns a part with text for the model.
func InputText(text string) Part { return Part{Type: PartInputText, Text: text} }

// MarshalJSON writes exactly the keys that the part's type has. Without logprobs
// there is an empty list: this satisfies both Open Responses, where the key is
// optional, and SDKs that require it.
func (p Part) MarshalJSON() ([]byte, error) { return p.appendJSON(nil) }

func (p Part) appendJSON(dst []byte) ([]byte, error) {
	o := begin(dst)
	o.str("type", p.Type)
	switch p.Type {
	case PartOutputText:
		o.str("text", p.Text)
		list(o, "annotations", p.Annotations)
		list(o, "logprobs", p.Logprobs)
	case PartRefusal:
		o.str("refusal", p.Refusal)
	case PartInputImage:
		o.nullable("image_url", nullable(p.ImageURL))
		if p.Detail == "" {
			p.Detail = "auto"
		}
		o.str("detail", p.Detail)
	case PartInputFile:
		o.optional("filename", p.FileName)
		o.optional("file_data", p.FileData)
		o.optional("file_url", p.FileURL)
	case PartInputVideo:
		o.str("video_url", p.VideoURL)
	case PartInputText, PartReasoningText, PartSummaryText, PartText:
		o.str("text", p.Text)
	default:
		return dst, fmt.Errorf("encode content part: unknown type %q", p.Type)
	}
	return o.end()
}

// UnmarshalJSON reads a part of any known type. Keys of other types are
// ignored; an unknown type is an error, since skipping content would change
// what the model is told.
func (p *Part) UnmarshalJSON(data []byte) error {
	var w struct {
		Type        string       `json:"type"`
		Text        string       `json:"text"`
		Refusal     string       `json:"refusal"`
		Annotations []Annotation `json:"annotations"`
		ImageURL    string       `json:"image_url"`
		Detail      string       `json:"detail"`
		FileName    string       `json:"filename"`
		FileData    string       `json:"file_data"`
		FileURL     string       `json:"file_url"`
		VideoURL    string       `json:"video_url"`
		FileID      string       `json:"file_id"`
		Logprobs    []LogProb    `json:"logprobs"`
	}
	if err := unmarshal(data, &w); err != nil {
		return err
	}
	if w.FileID != "" && (w.Type == PartInputImage || w.Type == PartInputFile) {
		return Invalid("file_id", CodeUnsupportedParameter,
			"uploaded files are not offered by this server; send the content as a data URL or by its https URL")
	}
	switch w.Type {
	case PartInputText, PartReasoningText, PartSummaryText, PartText:
		*p = Part{Type: w.Type, Text: w.Text}
	case PartOutputText:
		*p = Part{Type: w.Type, Text: w.Text}
		if len(w.Annotations) > 0 {
			p.Annotations = w.Annotations
		}
		if len(w.Logprobs) > 0 {
			p.Logprobs = w.Logprobs
		}
	case PartRefusal:
		*p = Part{Type: w.Type, Refusal: w.Refusal}
	case PartInputImage:
		switch w.Detail {
		case "low", "high", "auto":
		case "":
			w.Detail = "auto"
		default:
			return Invalid("detail", CodeInvalidValue,
				fmt.Sprintf("detail of an input_image must be low, high or auto, not %q", clip(w.Detail, 32)))
		}
		*p = Part{Type: w.Type, ImageURL: w.ImageURL, Detail: w.Detail}
	case PartInputFile:
		*p = Part{Type: w.Type, FileName: w.FileName, FileData: w.FileData, FileURL: w.FileURL}
	case PartInputVideo:
		*p = Part{Type: w.Type, VideoURL: w.VideoURL}
	case "":
		return Invalid("type", CodeMissingParameter, "a content part needs a type")
	default:
		return Invalid("type", CodeInvalidValue, fmt.Sprintf("content part type %q is unknown", clip(w.Type, 64)))
	}
	return nil
}

// decodeContent reads the content of a message or the output of a call: a
// string becomes one part of type textType, null becomes no parts.
func decodeContent(raw json.RawMessage, textType string) ([]Part, error) {
	if isNull(raw) {
		return nil, nil
	}
	if raw[0] == '[' { // each look at a large content takes long, so the first byte decides
		return decodeParts(raw)
	}
	var s string
	if unmarshal(raw, &s) != nil {
		return nil, Invalid("", CodeInvalidValue, "the value must be a string or an array of content parts")
	}
	return []Part{{Type: textType, Text: s}}, nil
}

// decodeParts reads a list of parts one by one, so that an error names the
// index. An empty list becomes nil.
func decodeParts(raw json.RawMessage) ([]Part, error) {
	if isNull(raw) {
		return nil, nil
	}
	var raws []json.RawMessage
	if err := unmarshal(raw, &raws); err != nil {
		return nil, decodeError("", err)
	}
	var parts []Part
	for i, elem := range raws {
		var p Part
		if err := p.UnmarshalJSON(elem); err != nil {
			return nil, within(fmt.Sprintf("[%d]", i), err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// nullable maps "" to nil, for keys whose empty value is written as null.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// nonNil returns list, or an empty list in its place, so that it is written as
// [] and never as null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
