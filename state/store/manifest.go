package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"holon/internal/pattern"
)

// schema is the value of "schema" in every manifest.
const schema = "holon.files/1"

// What a manifest may have: entries, bytes of JSON, bytes of a file, bytes of a link's target.
const (
	maxEntries  = 500_000
	maxManifest = 256 << 20
	maxFile     = 4 << 30
	maxTarget   = 4 << 10
)

// manifest is what a bucket has of a unit.
type manifest struct {
	Schema   string    `json:"schema"`
	Unit     string    `json:"unit"`
	Fence    int64     `json:"fence"`    // of the lease of the process that wrote it
	Revision string    `json:"revision"` // unlike that of any other
	SavedAt  time.Time `json:"saved_at"`
	Entries  []entry   `json:"entries"` // sorted by path: a directory is before what is in it
}

// Kinds of entries.
const (
	kindDir  = "dir"
	kindFile = "file"
	kindLink = "link"
)

// entry is a file, a directory or a link.
type entry struct {
	Path   fileName `json:"path"`
	Kind   string   `json:"kind"`
	Mode   uint32   `json:"mode,omitempty"`   // permissions of a file or a directory
	Size   int64    `json:"size,omitempty"`   // of a file, like what follows
	Time   int64    `json:"mtime,omitempty"`  // in nanoseconds since 1970
	SHA256 string   `json:"sha256,omitempty"` // in hex
	Fence  int64    `json:"fence,omitempty"`  // of its object
	Target fileName `json:"target,omitempty"` // of a link
}

func (e *entry) object() string { return fmt.Sprintf("objects/%s-%d", e.SHA256, e.Fence) }

var validDigest = pattern.Lazy(`^[0-9a-f]{64}$`)

// check refuses what no holon wrote.
func (m *manifest) check(unit string) error {
	switch {
	case m.Schema != schema:
		return fmt.Errorf("it has the schema %.64q, not %s", m.Schema, schema)
	case m.Unit != unit || m.Revision == "" || m.Fence < 0 || len(m.Entries) > maxEntries:
		return errors.New("it is not of this unit, or lacks something")
	}
	kinds := map[fileName]string{".": kindDir}
	for i := range m.Entries {
		e := &m.Entries[i]
		switch {
		case !validPath(e.Path), kinds[e.Path] != "":
			return fmt.Errorf("the path %.200q leads elsewhere or comes twice", e.Path)
		case kinds[fileName(path.Dir(string(e.Path)))] != kindDir:
			return fmt.Errorf("%.200q is in no directory", e.Path)
		case e.Kind == kindFile && (!validDigest().MatchString(e.SHA256) || e.Size < 0 || e.Size > maxFile || e.Fence < 0),
			e.Kind == kindLink && (e.Target == "" || len(e.Target) > maxTarget),
			e.Kind != kindFile && e.Kind != kindLink && e.Kind != kindDir, e.Mode > 0o777:
			return fmt.Errorf("the entry %.200q cannot be", e.Path)
		}
		kinds[e.Path] = e.Kind
	}
	return nil
}

func (m *manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(m), z.Close()); err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return b.Bytes(), nil
}

func decode(unit string, in io.Reader) (*manifest, error) {
	z, err := gzip.NewReader(in)
	m := new(manifest)
	if err == nil {
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(z, maxManifest)); err == nil {
			err = json.Unmarshal(data, m)
		}
	}
	if err == nil {
		err = m.check(unit)
	}
	return m, err
}
