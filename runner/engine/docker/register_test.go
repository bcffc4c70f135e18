package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
)

// Containers are listed, by a sweep, between the answer of the engine and the note of the id: the maker goes on.
func TestListedBeforeItIsNoted(t *testing.T) {
	r := register{t.TempDir()}
	expect.NoError(t, r.announce("nonce", "daemon"))
	if !r.knows("nonce", "id") {
		t.Error("a container whose maker is about to note it is not known")
	}
	for range 2 {
		if err := r.made("nonce", "id", "daemon"); err != nil || !r.noted("id") {
			t.Errorf("the maker cannot note the container: %v", err)
		}
		expect.NoError(t, r.forget("id")) // as by another list, which did not find it
	}
	if r.knows("other", "another") {
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
