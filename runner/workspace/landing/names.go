package landing

import (
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// MarshalJSON writes all names as bytes too, in base64, where JSON cannot hold one of them.
func (r ApplyResult) MarshalJSON() ([]byte, error) {
	type plain ApplyResult
	return json.Marshal(struct {
		plain
		WrittenBytes [][]byte `json:"written_bytes,omitempty"`
		DeletedBytes [][]byte `json:"deleted_bytes,omitempty"`
	}{plain(r), rawNames(r.Written), rawNames(r.Deleted)})
}

func rawNames(names []string) (raw [][]byte) {
	if !slices.ContainsFunc(names, func(name string) bool { return !utf8.ValidString(name) }) {
		return nil
	}
	for _, name := range names {
		raw = append(raw, []byte(name))
	}
	return raw
}
