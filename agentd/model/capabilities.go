package model

import (
	"cmp"
	"fmt"

	"holon/responses"
	"holon/responses/turns"
)

// Capabilities describe the content that a model accepts in addition to text, and
// the common features that it lacks. The zero value is text alone, with tools and
// structured answers.
type Capabilities struct {
	Images bool // input_image parts, in messages and in outputs of calls
	Files  bool // input_file parts, likewise
	Video  bool // input_video parts, likewise

	NoTools      bool // functions cannot be offered
	NoStructured bool // answers cannot be structured
	Freeform     bool // tools in free form
	StrictTools  bool // tools in their strict form
	CacheKey     bool // the cache key of a request is sent
}

// capable is implemented by transports whose models accept more than text. name is
// the model as the transport knows it. Content that a transport does not declare
// is refused before the turn begins, so that none is lost.
type capable interface {
	Capabilities(name string) Capabilities
}

// CapabilitiesOf returns what t declares for a model.
func CapabilitiesOf(t Transport, name string) Capabilities {
	if c, ok := t.(capable); ok {
		return c.Capabilities(name)
	}
	return Capabilities{}
}

// Take reports whether a content part can be passed on.
func (c Capabilities) Take(p responses.Part) bool {
	switch p.Type {
	case responses.PartInputImage:
		return c.Images
	case responses.PartInputFile:
		return c.Files
	case responses.PartInputVideo:
		return c.Video
	}
	return true
}

// Capabilities implements capable: the union over the candidates. A candidate that
// lacks something fails when it is called. The cache key is that of the first, which is asked first.
func (c *chain) Capabilities(name string) Capabilities {
	sum := Capabilities{NoTools: true, NoStructured: true}
	for i := range c.candidates {
		one := CapabilitiesOf(c.candidates[i].Transport, cmp.Or(c.candidates[i].Name, name))
		sum.CacheKey = sum.CacheKey || i == 0 && one.CacheKey
		sum.Images, sum.Files, sum.Video, sum.Freeform = sum.Images || one.Images, sum.Files || one.Files,
			sum.Video || one.Video, sum.Freeform || one.Freeform
		sum.StrictTools = sum.StrictTools || one.StrictTools
		sum.NoTools, sum.NoStructured = sum.NoTools && one.NoTools, sum.NoStructured && one.NoStructured
	}
	return sum
}

// ExcludedBy lists why the models of a transport, or of a chain of them, cannot be asked req, nil where one can.
func ExcludedBy(req Request, t Transport, ref string) (list []turns.Excluded) {
	candidates := []Candidate{{Ref: ref, Transport: t}}
	if c, ok := t.(*chain); ok {
		candidates = c.candidates
	}
	for _, c := range candidates {
		err := CapabilitiesOf(c.Transport, cmp.Or(c.Name, req.Model)).unsupported(&req)
		if err == nil {
			return nil
		}
		list = append(list, turns.Excluded{Ref: c.Ref, Reason: err.Message})
	}
	return list
}

// unsupported returns the error of a request that needs more than c offers, nil
// otherwise. Such a request is not sent to the transport (runtime specification,
// "Provider Transport Contract").
func (c Capabilities) unsupported(req *Request) *Error {
	lack := ""
	switch {
	case c.NoTools && len(req.Tools) > 0:
		lack = "it cannot be offered tools"
	case c.NoStructured && (req.Text.Format.Type == "json_schema" || req.Text.Format.Type == "json_object"):
		lack = "its answers cannot be given a form"
	default:
		p := c.refused(req.Input)
		if p == "" {
			return nil
		}
		lack = fmt.Sprintf("it takes no content of type %.32q", p)
	}
	return &Error{
		Kind: KindUnsupported, Code: responses.CodeUnsupportedParameter,
		Message:     "the model cannot be asked this: " + lack,
		Diagnostics: &Diagnostics{Stage: StageSelect},
	}
}

// refused returns the type of the first content part that cannot be passed on,
// "" when all can.
func (c Capabilities) refused(input []responses.Item) string {
	if c.Images && c.Files && c.Video {
		return ""
	}
	for _, item := range input {
		var parts []responses.Part
		switch item := item.(type) {
		case *responses.Message:
			parts = item.Content
		case *responses.FunctionCallOutput:
			parts = item.Output
		case *responses.ToolCall:
			parts = item.Media
		}
		for _, p := range parts {
			if !c.Take(p) {
				return p.Type
			}
		}
	}
	return ""
}
