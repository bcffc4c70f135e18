package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"holon/internal/durable"
)

// Consent is a value of a project's file that is in force once a person agreed to it, as it is, for that directory.
// What was agreed to is a file of HOLON_HOME/consents, named by its digest: to remove it is to be asked again.
type Consent struct {
	Project string    `json:"project"` // directory with the file
	Key     string    `json:"key"`
	Value   string    `json:"value"` // JSON
	At      time.Time `json:"at"`    // when a person agreed

	key  *key
	name string
	node *yaml.Node
}

// digest names the consent by what it is about.
func (c *Consent) digest() string {
	sum := sha256.New()
	for _, part := range []string{"holon.consent/1", c.Project, c.Key, c.Value} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// consents is where they are kept below the directory of a home.
const consents = "consents"

// agreed reports whether a person agreed to a value before.
func (l *Loaded) agreed(c *Consent) bool {
	if l.sources.Consents == "" {
		return false
	}
	info, err := os.Lstat(filepath.Join(l.sources.Consents, consents, c.digest()))
	return err == nil && info.Mode().IsRegular()
}

// needsConsent adds a value of the project's file to Pending, unless a person agreed to it before.
func (l *Loaded) needsConsent(top string, k *key, name string, n *yaml.Node) bool {
	v, what, _ := k.parse(n)
	if what != "" {
		return false // it is reported when it is set
	}
	c := Consent{Project: top, Key: k.full(name), Value: Text(shown(v)), key: k, name: name, node: n}
	if l.agreed(&c) {
		return false
	}
	l.Pending = append(l.Pending, c)
	return true
}

// Agree puts a pending value into force and remembers that in the home at dir.
func (l *Loaded) Agree(c Consent, dir string, now time.Time) error {
	c.At = now.UTC()
	data, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, consents), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, consents, c.digest()), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember what was agreed to: %w", err)
	}
	l.settle(c.Key)
	l.set(origin{LayerProject, ProjectFile}, c.key, c.name, c.node)
	return nil
}

// settle drops what is pending for a key, which is decided.
func (l *Loaded) settle(key string) {
	l.Pending = slices.DeleteFunc(l.Pending, func(c Consent) bool { return c.Key == key })
}
