package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
)

// Containers are listed, by a sweep, between the answer of the engine and the note of the id: the maker goes on, and what
// takes the container for one that is gone drops nothing.
func TestListedBeforeItIsNoted(t *testing.T) {
	r := register{t.TempDir()}
	id := strings.Repeat("a", idSize)
	expect.NoError(t, r.announce("NONCE", "daemon"))
	if ids, err := r.noteds("daemon"); !r.knows("NONCE", id) || err != nil || len(ids) > 0 {
		t.Errorf("a container whose maker is about to note it is not known, or may be dropped: %v, %v", ids, err)
	}
	expect.NoError(t, r.made("NONCE", id))
	if ids, err := r.noteds("daemon"); !r.knows("NONCE", id) || err != nil || len(ids) != 1 {
		t.Errorf("a container whose maker noted it is not known: %v, %v", ids, err)
	}
	if r.knows("OTHER", strings.Repeat("b", idSize)) {
		t.Error("a container that was not announced is known")
	}
}

// A list drops the containers that something else removed, of those that the same daemon made.
func TestListDropsWhatIsGone(t *testing.T) {
	t.Parallel()
	e := connect(t)
	info, err := e.daemon(t.Context())
	expect.NoError(t, err)
	e.register.dir = t.TempDir()
	for name, daemon := range map[string]string{strings.Repeat("a", idSize): info.ID, strings.Repeat("b", idSize): "other",
		"NONCE": info.ID} {
		expect.NoError(t, os.WriteFile(filepath.Join(e.register.dir, name), []byte(daemon), 0o600))
	}
	_, err = e.List(t.Context(), map[string]string{"holon.home": e.register.dir})
	expect.NoError(t, err)
	for name, stays := range map[string]bool{strings.Repeat("a", idSize): false, strings.Repeat("b", idSize): true,
		"NONCE": true} {
		expect.Equal(t, name+" stays", e.register.noted(name), stays)
	}
}
