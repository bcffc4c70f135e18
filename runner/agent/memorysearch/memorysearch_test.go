package memorysearch_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holon/internal/redact"
	"holon/responses"
	"holon/runner/agent/memorysearch"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// texts are files of homes, by agent and name.
type texts map[string]string

func (f texts) Text(agentID, name string) (string, time.Time, error) {
	text, ok := f[agentID+" "+name]
	if !ok {
		return "", time.Time{}, fs.ErrNotExist
	}
	return text, noon, nil
}

// rig is a ledger with the agents main and other, and their memory.
type rig struct {
	t       *testing.T
	dir     string
	store   ledger.Store
	files   texts
	secrets *redact.Set
	service *memorysearch.Service
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "ledger")})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, store.Close()) })
	r := &rig{t: t, dir: dir, store: store, files: texts{}, secrets: new(redact.Set)}
	r.service = memorysearch.New(memorysearch.Options{Ledger: store, Files: r.files, Key: []byte("key"), Secrets: r.secrets,
		Dir: func(id string) string { return filepath.Join(dir, id) }, Now: func() time.Time { return noon },
		Log: slog.New(slog.DiscardHandler)})
	r.write(func(tx ledger.Tx) error {
		for _, id := range []string{"main", "other"} {
			if err := tx.Insert(&ledger.Agent{ID: id}, &ledger.AgentState{AgentID: id}); err != nil {
				return err
			}
		}
		return nil
	})
	return r
}

func (r *rig) write(do func(ledger.Tx) error) {
	r.t.Helper()
	expect.NoError(r.t, r.store.Update(r.t.Context(), do))
}

// state changes the state of the agent main.
func (r *rig) state(change func(tx ledger.Tx, s *ledger.AgentState) error) {
	r.t.Helper()
	r.write(func(tx ledger.Tx) error {
		s, err := tx.AgentState("main")
		if err == nil {
			err = change(tx, &s)
		}
		if err == nil {
			err = tx.Step(&s, ledger.Event{ID: responses.NewID("evt_"), CreatedAt: noon, Class: "test"})
		}
		return err
	})
}

func (r *rig) brief(agentID, workspace, text string) {
	r.t.Helper()
	r.write(func(tx ledger.Tx) error {
		return tx.Insert(&ledger.Brief{ID: responses.NewID("brf_"), AgentID: agentID, WorkspaceID: workspace,
			Kind: ledger.BriefResult, CreatedAt: noon, Text: text})
	})
}

// search returns the titles that a search of the agent main finds.
func (r *rig) search(q view.MemoryQuery) (titles []string) {
	r.t.Helper()
	found, err := r.service.Search(r.t.Context(), "main", q)
	expect.NoError(r.t, err)
	for _, m := range found.Results {
		titles = append(titles, m.Title)
	}
	slices.Sort(titles)
	return titles
}

func (r *rig) finds(query string, want ...string) {
	r.t.Helper()
	if got := r.search(view.MemoryQuery{Text: query}); !slices.Equal(got, want) {
		r.t.Errorf("%q finds %q, not %q", query, got, want)
	}
}

func TestEverySourceIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.files["main memory/self.md"] = "I prefer zebra stripes"
	r.files["main memory/operator.md"] = "The operator is in zebra time"
	r.files["main notes/a.md"] = "zebra notes are no memory"
	r.files["main work-items/work_1/plan.md"] = "first feed the zebra"
	r.brief("main", ledger.HomeWorkspace, "The zebra brief")
	r.brief("other", ledger.HomeWorkspace, "The zebra of another agent")
	r.state(func(tx ledger.Tx, s *ledger.AgentState) error {
		s.Workspaces = []ledger.Attachment{{WorkspaceID: "ws_1"}}
		s.Active = &ledger.ActiveWorkspace{WorkspaceID: "ws_1"}
		at := noon
		return tx.Insert(&ledger.Workspace{ID: "ws_1", Alias: "zebra", Kind: ledger.WorkspaceGit},
			&ledger.WorkItem{ID: "work_1", AgentID: "main", Objective: "Keep animals", State: ledger.WorkOpen, Step: 1},
			&ledger.WorkItem{ID: "work_2", AgentID: "main", Objective: "Report", State: ledger.WorkCompleted, Step: 1},
			&ledger.DeliverySummary{WorkItemID: "work_2", AgentID: "main", Text: "the zebra is well"},
			&ledger.Episode{ID: "epi_1", AgentID: "main", Number: 1, FinalizedAt: &at, Objective: "An episode",
				Decisions: []string{"buy a zebra"}})
	})
	r.finds("zebra", "An episode", "Keep animals", "Report", "The zebra brief", "memory/operator.md", "memory/self.md",
		"zebra")
	r.files["main work-items/work_1/plan.md"] = "first feed the giraffe" // no record says so
	r.finds("giraffe", "Keep animals")
}

func TestChangesAreFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.files["main memory/self.md"] = "alpha"
	item := ledger.WorkItem{ID: "work_1", AgentID: "main", Objective: "alpha", State: ledger.WorkOpen, Step: 1}
	r.state(func(tx ledger.Tx, s *ledger.AgentState) error {
		s.Workspaces = []ledger.Attachment{{WorkspaceID: "ws_1"}}
		s.Active = &ledger.ActiveWorkspace{WorkspaceID: "ws_1"}
		return tx.Insert(&item, &ledger.Workspace{ID: "ws_1", Alias: "alpha", Kind: ledger.WorkspaceGit})
	})
	r.finds("alpha", "alpha", "alpha", "memory/self.md")
	r.files["main memory/self.md"] = "beta"
	item.Objective, item.Step = "gamma", 2
	r.state(func(tx ledger.Tx, s *ledger.AgentState) error {
		s.Workspaces = nil
		return tx.Update(&item)
	})
	r.finds("alpha")
	r.finds("beta", "memory/self.md")
	delete(r.files, "main memory/self.md")
	r.finds("beta")
	r.finds("gamma", "gamma")
}

func TestWhatRetentionRemovedIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.brief("main", "", "an old zebra")
	r.finds("zebra", "an old zebra")
	_, err := r.store.Prune(t.Context(), ledger.Retention{Messages: time.Hour}, noon.Add(2*time.Hour), 100)
	expect.NoError(t, err)
	r.finds("zebra")
	r.brief("main", "", "a new zebra")
	r.finds("zebra", "a new zebra")
}

func TestSearchIsBoundToTheActiveWorkspace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.brief("main", "", "zebra without a place")
	r.brief("main", ledger.HomeWorkspace, "zebra at home")
	r.brief("main", "ws_1", "zebra in one")
	r.brief("main", "ws_2", "zebra in two")
	r.finds("zebra", "zebra at home", "zebra without a place")
	r.state(func(_ ledger.Tx, s *ledger.AgentState) error {
		s.Active = &ledger.ActiveWorkspace{WorkspaceID: "ws_1"}
		return nil
	})
	r.finds("zebra", "zebra at home", "zebra in one", "zebra without a place")
	if all := r.search(view.MemoryQuery{Text: "zebra", AllWorkspaces: true}); len(all) != 4 {
		t.Errorf("all workspaces have %q", all)
	}
}

func TestSecretsNeverEnterTheIndex(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const known, later = "correct-horse-battery-1", "staple-horse-battery-2"
	r.secrets.Add("KEY", known)
	r.files["main memory/self.md"] = "the key is " + known
	r.brief("main", "", known+" is the key, and "+later)
	r.files["main work-items/work_1/plan.md"] = known
	r.state(func(tx ledger.Tx, _ *ledger.AgentState) error {
		return tx.Insert(&ledger.WorkItem{ID: "work_1", AgentID: "main", Objective: "use " + known, Step: 1})
	})
	if found := r.search(view.MemoryQuery{Text: "key"}); len(found) != 2 || strings.Contains(fmt.Sprint(found), known) {
		t.Errorf("found %q", found)
	}
	r.lacks(known)
	r.secrets.AddFresh("TOKEN", "battery-made-just-now-3")
	r.brief("main", "", "nothing") // which makes the next search write
	before, err := os.Stat(r.index())
	expect.NoError(t, err)
	r.finds("nothing", "nothing")
	after, err := os.Stat(r.index())
	expect.NoError(t, err)
	if !os.SameFile(before, after) {
		t.Error("the index was made anew for a secret that nothing in it can have")
	}
	r.secrets.Add("LATER", later)
	r.finds(later)
	r.finds("staple")
	r.lacks(later)
	found, err := r.service.Search(t.Context(), "main", view.MemoryQuery{Text: "key"})
	expect.NoError(t, err)
	for _, m := range found.Results {
		got, err := r.service.Get(t.Context(), "main", m.SourceRef, 0)
		expect.NoError(t, err)
		if text := fmt.Sprint(m, got); strings.Contains(text, later) {
			t.Errorf("a secret that became known later is answered: %s", text)
		}
	}
}

func (r *rig) index() string { return filepath.Join(r.dir, "main", "indexes", "memory.sqlite3") }

// lacks checks that no file of the index of the agent main has a text.
func (r *rig) lacks(text string) {
	r.t.Helper()
	files, err := filepath.Glob(r.index() + "*")
	expect.NoError(r.t, err)
	for _, path := range files {
		data, err := os.ReadFile(path)
		expect.NoError(r.t, err)
		if strings.Contains(string(data), text) {
			r.t.Errorf("%s has the secret %s", filepath.Base(path), text)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	for name, c := range map[string]struct {
		do    func() error
		code  state.Code
		param string
	}{
		"no query": {func() error { _, err := r.service.Search(ctx, "main", view.MemoryQuery{Text: " \n"}); return err },
			memorysearch.CodeInvalidQuery, "query"},
		"limit": {func() error {
			_, err := r.service.Search(ctx, "main", view.MemoryQuery{Text: "a", Limit: view.MaxMemories + 1})
			return err
		}, memorysearch.CodeInvalidQuery, "limit"},
		"max_chars": {func() error { _, err := r.service.Get(ctx, "main", "mem_", view.MaxMemoryChars+1); return err },
			memorysearch.CodeInvalidQuery, "max_chars"},
		"ref":   {func() error { _, err := r.service.Get(ctx, "main", "brf_1", 0); return err }, ledger.CodeNotFound, "source_ref"},
		"agent": {func() error { _, err := r.service.Rebuild(ctx, "absent"); return err }, ledger.CodeNotFound, "agent"},
		"path":  {func() error { _, err := r.service.Rebuild(ctx, "../main"); return err }, ledger.CodeNotFound, "agent"},
	} {
		e, ok := errors.AsType[*state.Error](c.do())
		if !ok || e.Code != c.code || e.Param != c.param {
			t.Errorf("%s: %v", name, e)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory of an agent that does not exist: %v", err)
	}
}

// Whatever is in the place of an index, the next search makes it anew, and so does a rebuild.
func TestObstacles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.brief("main", "", "zebra")
	outside := t.TempDir()
	dir := filepath.Dir(r.index())
	for name, make := range map[string]func() error{
		"a directory":        func() error { return os.Mkdir(r.index(), 0o700) },
		"a directory, full":  func() error { return os.MkdirAll(filepath.Join(r.index(), "a"), 0o700) },
		"a link":             func() error { return os.Symlink(filepath.Join(outside, "ix"), r.index()) },
		"a pipe":             func() error { return syscall.Mkfifo(r.index(), 0o600) },
		"a directory as log": func() error { return os.MkdirAll(filepath.Join(r.index()+"-journal", "a"), 0o700) },
		"a directory as WAL": func() error { return os.Mkdir(r.index()+"-wal", 0o700) },
		"a file for its directory": func() error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
		"a link for its directory": func() error { return errors.Join(os.RemoveAll(dir), os.Symlink(outside, dir)) },
		"closed": func() error {
			return errors.Join(os.WriteFile(r.index(), []byte("x"), 0), os.Chmod(dir, 0o500))
		},
	} {
		for _, rebuild := range []bool{false, true} {
			r.finds("zebra", "zebra") // a good one, so that its directory is there
			if !strings.HasPrefix(name, "a directory as") {
				expect.NoError(t, os.RemoveAll(r.index()))
			}
			expect.NoError(t, make())
			if rebuild {
				_, err := r.service.Rebuild(t.Context(), "main")
				expect.NoError(t, err)
			}
			r.finds("zebra", "zebra")
			if info, err := os.Lstat(r.index()); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: the index is %v (%v)", name, info, err)
			}
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("an index outside of the home: %v (%v)", left, err)
	}
	expect.NoError(t, errors.Join(os.RemoveAll(filepath.Dir(dir)), os.WriteFile(filepath.Dir(dir), nil, 0o600)))
	_, err := r.service.Search(t.Context(), "main", view.MemoryQuery{Text: "zebra"})
	e, ok := errors.AsType[*state.Error](err)
	if !ok || e.Code != "agent_home_unusable" || !strings.Contains(e.Message, r.index()) {
		t.Errorf("without a home: %v", err)
	}
}

func TestRefsBelongToOneAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.brief("main", "", "zebra")
	found, err := r.service.Search(t.Context(), "main", view.MemoryQuery{Text: "zebra"})
	expect.NoError(t, err)
	if _, err := r.service.Get(t.Context(), "other", found.Results[0].SourceRef, 0); !state.IsCode(err, ledger.CodeNotFound) {
		t.Errorf("another agent reads it: %v", err)
	}
}

// TestARebuiltIndexIsTheOneThatGrew plays random scripts of changes, with searches and lost writes between them, and
// compares what the index finds with what a new one does.
func TestARebuiltIndexIsTheOneThatGrew(t *testing.T) {
	t.Parallel()
	words := strings.Fields("alpha beta gammagamma 数据库 升级")
	rapid.Check(t, func(script *rapid.T) {
		r := newRig(t)
		text := func() string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 4).Draw(script, "words"), " ")
		}
		items := make(map[string]ledger.WorkItem)
		episodes := int64(0)
		for range rapid.IntRange(1, 15).Draw(script, "changes") {
			switch rapid.IntRange(0, 7).Draw(script, "change") {
			case 6:
				r.secrets.Add("SECRET", "gammagamma")
			case 0:
				r.brief("main", rapid.SampledFrom([]string{"", "ws_1"}).Draw(script, "workspace"), text())
			case 1:
				r.files["main memory/self.md"] = text()
			case 2:
				id := "work_" + rapid.SampledFrom([]string{"1", "2"}).Draw(script, "item")
				w, known := items[id]
				r.state(func(tx ledger.Tx, s *ledger.AgentState) error {
					w.ID, w.AgentID, w.Objective, w.Step = id, "main", text(), s.Revision+1
					items[id] = w
					if known {
						return tx.Update(&w)
					}
					return tx.Insert(&w)
				})
			case 3:
				episodes++
				r.write(func(tx ledger.Tx) error {
					return tx.Insert(&ledger.Episode{ID: fmt.Sprint("epi_", episodes), AgentID: "main", Number: episodes,
						CreatedAt: noon, Summary: text()})
				})
			case 4:
				_, err := r.store.Prune(t.Context(), ledger.Retention{Messages: time.Hour}, noon.Add(2*time.Hour), 1)
				expect.NoError(t, err)
			case 5:
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // a feed that ends before it has begun, or in between
				_, _ = r.service.Search(ctx, "main", view.MemoryQuery{Text: "alpha"})
			default:
				r.search(view.MemoryQuery{Text: "alpha"})
			}
		}
		all := func() (found []view.MemoryResults) {
			for _, w := range words {
				m, err := r.service.Search(t.Context(), "main", view.MemoryQuery{Text: w, AllWorkspaces: true})
				expect.NoError(t, err)
				found = append(found, m)
			}
			return found
		}
		grown := all()
		rebuilt, err := r.service.Rebuild(t.Context(), "main")
		expect.NoError(t, err)
		if anew := all(); fmt.Sprint(grown) != fmt.Sprint(anew) {
			script.Fatalf("the index that grew finds\n%v\nand one of %d sources that was made anew\n%v", grown,
				rebuilt.Sources, anew)
		}
	})
}
