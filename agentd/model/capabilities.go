package model

import "holon/responses"

// Capabilities say what a model can be told beside text. The zero value is
// text alone.
type Capabilities struct {
	Images bool // input_image parts, in messages and in outputs of calls
	Files  bool // input_file parts, likewise
	Video  bool // input_video parts, likewise
}

// Capable is implemented by transports whose models take more than text. name is
// the model as the transport knows it. What a transport does not declare is
// refused before the turn begins, so that no content is lost on the way.
type Capable interface {
	Capabilities(name string) Capabilities
}

// CapabilitiesOf returns what t declares for a model.
func CapabilitiesOf(t Transport, name string) Capabilities {
	if c, ok := t.(Capable); ok {
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

// Capabilities implements Capable.
func (r *retry) Capabilities(name string) Capabilities { return CapabilitiesOf(r.next, name) }

// Capabilities implements Capable: those of the first candidate, since the others
// may never be asked. One that lacks something says so itself.
func (f *fallback) Capabilities(string) Capabilities {
	return CapabilitiesOf(f.candidates[0].Transport, f.candidates[0].Name)
}
