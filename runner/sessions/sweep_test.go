package sessions

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/local"
	"holon/runner/workspace"
	"holon/state"
	"holon/test/expect"
)

// A sweep of one kind finds what sessions of that kind left, and nothing of the others.
func TestSweepOneKind(t *testing.T) {
	home, err := state.MakeHome(t.TempDir(), "")
	expect.NoError(t, err)
	eng, err := local.New(local.Options{Dir: filepath.Join(home.Dir(), "local")})
	expect.NoError(t, err)
	defer eng.Close()
	m := &Manager{Home: home}
	keys := map[Kind]Key{Runs: OfRun(state.NewRunID()), Agents: OfAgent("main"),
		Conversations: OfConversation(state.NewConversationID())}
	want := make(map[Kind][]string)
	for kind, key := range keys {
		expect.NoError(t, key.Check())
		id, sockets := key.newContainer()
		handle, err := eng.Create(t.Context(), engine.Spec{Name: "holon-" + id, Image: "x", Args: []string{"true"},
			Labels: m.labels(key, map[string]string{runner.LabelRun: id})})
		expect.NoError(t, err)
		expect.NoError(t, os.MkdirAll(home.IPCDir(sockets), 0o700))
		claim := key.String()
		if kind == Runs {
			claim = id
		}
		source, err := workspace.Open(t.Context(), workspace.Options{Dir: t.TempDir(), CacheDir: home.CacheDir(),
			Claim: claim})
		expect.NoError(t, err)
		tree, err := source.Acquire(t.Context())
		expect.NoError(t, err)
		want[kind] = []string{"container " + handle.Name, "sockets " + home.IPCDir(sockets), "tree " + tree.Held().Slot}
		expect.NoError(t, tree.Leave())
	}
	for kind, want := range want {
		var got []string
		s := Sweeper{Home: home, Kind: kind, Unowned: func(_ context.Context, l Leftover, remove func() error) (bool, error) {
			got = append(got, l.Kind+" "+l.Name)
			return true, remove()
		}}
		for range 2 { // what is gone is not found again
			expect.NoError(t, s.Containers(t.Context(), eng))
			expect.NoError(t, s.Sockets(t.Context()))
			expect.NoError(t, s.Claims(t.Context()))
		}
		if !slices.Equal(got, want) {
			t.Errorf("a sweep of kind %d finds %q, want %q", kind, got, want)
		}
	}
}
