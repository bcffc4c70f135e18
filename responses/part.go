package responses

import (
	"cmp"
	"fmt"

	"holon/internal/visible"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	Type        string       `json:"type"`
	Text        string       `json:"text"`        // input_text, output_text, reasoning_text, summary_text, text
	Refusal     string       `json:"refusal"`     // refusal
	Annotations []Annotation `json:"annotations"` // output_text
	Logprobs    []LogProb    `json:"logprobs"`    // output_text: only when the request asked for them

	ImageURL string `json:"image_url"` // input_image: an https URL or a data URL; "" is written as null
	Detail   string `json:"detail"`    // input_image: low, high or auto (the default)
	FileName string `json:"filename"`  // input_file
	FileData string `json:"file_data"` // input_file: a data URL, at most 32 MiB
	FileURL  string `json:"file_url"`  // input_file: an https URL
	VideoURL string `json:"video_url"` // input_video: an https URL or a data URL
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

// OutputText returns a part with text of the model.
func OutputText(text string) Part { return Part{Type: PartOutputText, Text: text} }

// InputText returns a part with text for the model.
func InputText(text string) Part { return Part{Type: PartInputText, Text: text} }

// MarshalJSON writes exactly the keys that the part's type has. Without logprobs
// there is an empty list: this satisfies both Open Responses, where the key is
// optional, and SDKs that require it.
func (p Part) MarshalJSON() ([]byte, error) { return encode(p) }

// MarshalJSONTo is MarshalJSON for an encoder.
func (p Part) MarshalJSONTo(enc *jsontext.Encoder) error {
	switch p.Type {
	case PartOutputText:
		return json.MarshalEncode(enc, struct {
			Type        string       `json:"type"`
			Text        string       `json:"text"`
			Annotations []Annotation `json:"annotations"`
			Logprobs    []LogProb    `json:"logprobs"`
		}{p.Type, p.Text, p.Annotations, p.Logprobs})
	case PartRefusal:
		return json.MarshalEncode(enc, struct {
			Type    string `json:"type"`
			Refusal string `json:"refusal"`
		}{p.Type, p.Refusal})
	case PartInputImage:
		return json.MarshalEncode(enc, struct {
			Type     string  `json:"type"`
			ImageURL *string `json:"image_url"`
			Detail   string  `json:"detail"`
		}{p.Type, nullable(p.ImageURL), cmp.Or(p.Detail, "auto")})
	case PartInputFile:
		return json.MarshalEncode(enc, struct {
			Type     string `json:"type"`
			FileName string `json:"filename,omitzero"`
			FileData string `json:"file_data,omitzero"`
			FileURL  string `json:"file_url,omitzero"`
		}{p.Type, p.FileName, p.FileData, p.FileURL})
	case PartInputVideo:
		return json.MarshalEncode(enc, struct {
			Type     string `json:"type"`
			VideoURL string `json:"video_url"`
		}{p.Type, p.VideoURL})
	case PartInputText, PartReasoningText, PartSummaryText, PartText:
		return json.MarshalEncode(enc, struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{p.Type, p.Text})
	}
	return fmt.Errorf("encode content part: unknown type %q", p.Type)
}

// UnmarshalJSON reads a part of any known type. Keys of other types are
// ignored; an unknown type is an error, since skipping content would change
// what the model is told.
func (p *Part) UnmarshalJSON(data []byte) error {
	type plain Part // without this method
	var w struct {
		plain
		FileID string `json:"file_id"`
	}
	if err := Unmarshal(data, &w); err != nil {
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
		*p = Part{Type: w.Type, Text: w.Text, Annotations: w.Annotations, Logprobs: w.Logprobs}
	case PartRefusal:
		*p = Part{Type: w.Type, Refusal: w.Refusal}
	case PartInputImage:
		*p = Part{Type: w.Type, ImageURL: w.ImageURL, Detail: cmp.Or(w.Detail, "auto")}
		return checkWord("detail", p.Detail, "low", "high", "auto")
	case PartInputFile:
		*p = Part{Type: w.Type, FileName: w.FileName, FileData: w.FileData, FileURL: w.FileURL}
	case PartInputVideo:
		*p = Part{Type: w.Type, VideoURL: w.VideoURL}
	case "":
		return Invalid("type", CodeMissingParameter, "a content part needs a type")
	default:
		return Invalid("type", CodeInvalidValue,
			fmt.Sprintf("content part type %q is unknown", visible.Clip(w.Type, 64)))
	}
	return nil
}

// Parts is the content of an item. A client may write a string for a single part of text.
type Parts []Part

// UnmarshalJSON reads a list of parts or a string, which becomes a part without a type: the item decides that.
func (p *Parts) UnmarshalJSON(data []byte) error {
	switch jsontext.Value(data).Kind() {
	case '"':
		*p = Parts{{}}
		return Unmarshal(data, &(*p)[0].Text)
	case '[', 'n':
		return Unmarshal(data, (*[]Part)(p))
	}
	return Invalid("", CodeInvalidValue, "the value must be a string or an array of content parts")
}

// MarshalJSON writes the list, [] when it is empty.
func (p Parts) MarshalJSON() ([]byte, error) { return encode(p) }

// MarshalJSONTo is MarshalJSON for an encoder.
func (p Parts) MarshalJSONTo(enc *jsontext.Encoder) error { return json.MarshalEncode(enc, []Part(p)) }

// settle gives the part of a client's string its type.
func (p Parts) settle(textType string) {
	for i := range p {
		p[i].Type = cmp.Or(p[i].Type, textType)
	}
}

// Output is the output of a call. One text part is written as a string, the form every client reads.
type Output Parts

// UnmarshalJSON reads a list of parts or a string.
func (o *Output) UnmarshalJSON(data []byte) error { return (*Parts)(o).UnmarshalJSON(data) }

// MarshalJSON writes a list of parts or a string.
func (o Output) MarshalJSON() ([]byte, error) {
	if len(o) == 1 && o[0].Type == PartInputText {
		return encode(o[0].Text)
	}
	return encode([]Part(o))
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
