package docker

import (
	"testing"

	"holon/test/expect"
)

// Containers are listed, by a sweep, between the answer of the engine and the note of the id: the maker goes on.
func TestListedBeforeItIsNoted(t *testing.T) {
	r := register{t.TempDir()}
	expect.NoError(t, r.announce("nonce"))
	if !r.knows("nonce", "id") {
		t.Error("a container whose maker is about to note it is not known")
	}
	if err := r.confirm("nonce", "id"); err != nil {
		t.Errorf("the maker cannot note the container: %v", err)
	}
	if r.knows("other", "another") {
		t.Error("a container that was not announced is known")
	}
}
