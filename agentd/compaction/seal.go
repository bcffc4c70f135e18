package compaction

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"holon/internal/durable"
	"holon/responses"
)

const (
	keyFile = "compaction.key" // in the state directory
	keySize = 32               // AES-256

	// version begins every blob and is authenticated with it. Another format gets
	// another version.
	version = "holon.c1."

	maxBlob = 4 << 20 // characters of a blob; one with the longest summary has fewer
)

// Sealer turns summaries into blobs that clients store but can neither read nor
// make: AES-256-GCM with a key in the state directory, which is created at first
// use. The encryption protects from clients only: a process that can read the
// state directory, such as a command of the agent, can read and make blobs. A
// Sealer is safe for concurrent use.
type Sealer struct {
	path string

	mu   sync.Mutex
	aead cipher.AEAD // nil until the key was read or made
}

// NewSealer returns the sealer of a state directory.
func NewSealer(dir string) *Sealer { return &Sealer{path: filepath.Join(dir, keyFile)} }

// sealed is the content of a blob.
type sealed struct {
	Summary string `json:"summary"`
}

// Seal returns the encrypted_content of a compaction item.
func (s *Sealer) Seal(summary string) (string, error) {
	aead, err := s.key(true)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(sealed{summary})
	if err != nil {
		return "", fmt.Errorf("encode summary: %w", err)
	}
	return version + base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, []byte(version))), nil
}

// Open returns the summary in a blob. A blob that this server did not make is
// a *responses.Error with the code compaction_unreadable and no param.
func (s *Sealer) Open(blob string) (summary string, err error) {
	text, ok := strings.CutPrefix(blob, version)
	if !ok || len(blob) > maxBlob {
		return "", unreadable("the compaction item was made by another server")
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // which the decoder would skip
		return "", unreadable("the compaction item is damaged")
	}
	aead, err := s.key(false)
	if errors.Is(err, fs.ErrNotExist) {
		return "", unreadable("the compaction item was made with another state directory")
	}
	if err != nil {
		return "", err
	}
	plain, err := aead.Open(nil, nil, data, []byte(version))
	if err != nil {
		return "", unreadable("the compaction item was altered, or made with another state directory")
	}
	var content sealed
	if err := json.Unmarshal(plain, &content); err != nil {
		return "", fmt.Errorf("decode summary: %w", err) // it was sealed by us
	}
	return content.Summary, nil
}

func unreadable(what string) *responses.Error {
	return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeCompactionUnreadable, Message: what,
		Hint: "send the conversation itself, or compact it here with POST /responses/compact"}
}

// Expand returns items with every compaction item replaced by a message of the
// user with its summary. items is not changed, and is returned itself when it has
// no compaction items. param names items in errors, as in input[2].
func (s *Sealer) Expand(param string, items []responses.Item) ([]responses.Item, error) {
	var out []responses.Item
	for i, item := range items {
		c, ok := item.(*responses.Compaction)
		if !ok {
			continue
		}
		summary, err := s.Open(c.EncryptedContent)
		if err != nil {
			e := *responses.AsError(err)
			e.Param = fmt.Sprintf("%s[%d].encrypted_content", param, i)
			return nil, &e
		}
		if out == nil {
			out = append(out, items...)
		}
		out[i] = Message(c.ID, summary)
	}
	if out == nil {
		return items, nil
	}
	return out, nil
}

// Message returns the message that shows a summary to a model. It has the id of the
// compaction item that it replaces, which may be "".
func Message(id, summary string) *responses.Message {
	const frame = "The conversation before this point was compacted. What follows is a summary of it for the agent, " +
		"written by a model; the user's messages above, if any, were kept word for word. Continue from here.\n\n"
	if !strings.HasPrefix(id, responses.PrefixCompaction) {
		id = responses.PrefixCompaction + "summary"
	}
	return &responses.Message{ID: id, Status: responses.ItemCompleted, Role: responses.RoleUser,
		Content: []responses.Part{responses.InputText(frame + summary)}}
}

// key returns the cipher. Without create the error is fs.ErrNotExist if the key does
// not exist.
func (s *Sealer) key(create bool) (cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aead != nil {
		return s.aead, nil
	}
	key, err := readKey(s.path)
	if errors.Is(err, fs.ErrNotExist) && create {
		key = make([]byte, keySize)
		rand.Read(key) // never fails
		if err = durable.WriteFile(s.path, key, 0o600); err != nil {
			err = fmt.Errorf("make the key of compaction items: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the key of compaction items: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("use the key of compaction items: %w", err)
	}
	s.aead = aead
	return aead, nil
}

// readKey reads the key and restricts its permissions to the owner.
func readKey(path string) ([]byte, error) {
	key, err := durable.ReadFile(path, keySize+1)
	if err != nil {
		return nil, fmt.Errorf("read the key of compaction items: %w", err)
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("the key of compaction items, %s, is damaged; remove it, and compaction items that "+
			"exist cannot be read any more", path)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("protect the key of compaction items: %w", err)
	}
	return key, nil
}
