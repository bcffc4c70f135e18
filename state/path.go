package state

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// rawName is the name of a file for JSON, which cannot hold every one: its bytes, nil for a name that is UTF-8.
func rawName(name string) []byte {
	if utf8.ValidString(name) {
		return nil
	}
	return []byte(name)
}

// The forms of JSON: "path" has U+FFFD for what is not UTF-8, and "path_bytes" the whole name then.
type (
	plainChange  FileChange
	plainWarning Warning

	jsonChange struct {
		plainChange
		PathBytes []byte `json:"path_bytes,omitempty"`
		FromBytes []byte `json:"from_bytes,omitempty"`
	}
	jsonWarning struct {
		plainWarning
		PathBytes []byte `json:"path_bytes,omitempty"`
	}
)

// MarshalJSON writes names that are not UTF-8 as bytes too, in base64.
func (c FileChange) MarshalJSON() ([]byte, error) {
	return encodePlain(jsonChange{plainChange(c), rawName(c.Path), rawName(c.From)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *FileChange) UnmarshalJSON(data []byte) error {
	var j jsonChange
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*c = FileChange(j.plainChange)
	restore(&c.Path, j.PathBytes)
	restore(&c.From, j.FromBytes)
	return nil
}

// MarshalJSON writes a name that is not UTF-8 as bytes too, in base64.
func (w Warning) MarshalJSON() ([]byte, error) {
	return encodePlain(jsonWarning{plainWarning(w), rawName(w.Path)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Warning) UnmarshalJSON(data []byte) error {
	var j jsonWarning
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*w = Warning(j.plainWarning)
	restore(&w.Path, j.PathBytes)
	return nil
}

// encodePlain leaves it to the encoder around it whether characters of HTML are escaped.
func encodePlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

func restore(name *string, raw []byte) {
	if raw != nil {
		*name = string(raw)
	}
}
