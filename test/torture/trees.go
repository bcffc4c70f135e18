package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"holon/responses/tasks"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/load"
	"holon/test/programs"
	"holon/test/torture/check"
)

// forest are the trees of the agents of a world, and the repositories of the user that they are made from.
type forest struct {
	*world
	home         state.Home
	repositories []*repository
	branches     int
}

// repository is one of the user, and what the user and the operator did to it in a round.
type repository struct {
	dir   string
	lines int // that the user wrote

	mu      sync.Mutex // the user does not write a file while the operator has it written
	edited  map[string]bool
	commits bool
	taken   bool // a change was applied or checked out, or that was tried
}

// playTrees lets agents work in trees of repositories while the operator, the user and agents use and change them, and
// something is hit.
func playTrees(ctx context.Context, r *round) {
	f := &forest{}
	var dirs []string
	for n := range 2 + r.rng.IntN(2) {
		repo := r.newRepository(ctx, n)
		f.repositories, dirs = append(f.repositories, repo), append(dirs, repo.dir)
	}
	f.world = r.newWorld(ctx, 3, dirs, "HOLON_IDLE_PAUSE="+one(r, "200ms", "1m"), "HOLON_IDLE_STOP="+one(r, "1s", "15m"),
		"HOLON_MAX_CONTAINERS="+one(r, "2", "16"))
	f.home = load.Must(state.FindHome(f.serve.Home, ""))
	f.words, f.simple, f.also = load.TreeWords(len(dirs)), load.Line, f.drawActs
	r.rounds = 0
	for n := range r.lab.strikes {
		r.tell("strike %d", n)
		r.rounds++
		before := f.listings()
		f.guard(func() { f.strike(ctx) })
		f.guard(func() { f.look(ctx, before) })
	}
	f.guard(func() { f.answers(ctx) })
	f.guard(func() { f.archive(ctx) })
	f.end(ctx)
	f.guard(func() { f.kept(ctx) })
}

func (r *round) newRepository(ctx context.Context, n int) *repository {
	repo := &repository{dir: r.path(fmt.Sprintf("repo%d", n)), edited: make(map[string]bool)}
	load.Check(os.MkdirAll(filepath.Join(repo.dir, "sub"), 0o755))
	for name, text := range map[string]string{"shared": "top\n", "user": "", "sub/a": "a\n", "AGENTS.md": "Be brief.\n"} {
		load.Check(os.WriteFile(filepath.Join(repo.dir, name), []byte(text), 0o644))
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-qm", "first"}} {
		load.Check(repo.git(ctx, args...))
	}
	return repo
}

func (repo *repository) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = repo.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(repo.dir),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@localhost", "GIT_COMMITTER_NAME=u",
		"GIT_COMMITTER_EMAIL=u@localhost"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// act is something that the operator or the user does in a round.
type act struct {
	name  string
	after time.Duration
	do    func(ctx context.Context) error
}

// drawActs makes what happens to repositories and trees while messages are worked off.
func (f *forest) drawActs() func(context.Context) {
	var acts []act
	for range 3 + f.r.rng.IntN(4) {
		acts = append(acts, f.drawCall())
	}
	for range f.r.rng.IntN(3) {
		acts = append(acts, f.drawEdit(), f.drawTouch())
	}
	var lines []string
	for _, a := range acts {
		lines = append(lines, fmt.Sprintf("%s after %s", a.name, a.after))
	}
	f.r.tell("%s", strings.Join(lines, "; "))
	return func(ctx context.Context) {
		var group sync.WaitGroup
		errs := make([]error, len(acts))
		for i, a := range acts {
			group.Go(func() {
				if errs[i] = load.Pause(ctx, a.after); errs[i] == nil {
					errs[i] = a.do(ctx)
				}
				if errs[i] != nil {
					errs[i] = fmt.Errorf("%s: %w", a.name, errs[i])
				}
			})
		}
		group.Wait()
		load.Check(errors.Join(errs...))
	}
}

// drawCall makes calls of the operator about a workspace of an agent, one after the other.
func (f *forest) drawCall() act {
	r := f.r
	agent, repo := one(r, f.agents...), one(r, f.repositories...)
	first := f.drawVerb(agent, repo, one(r, "attach", "use", "use", "use", "exit", "detach", "diff", "apply",
		"checkout", "sync"))
	a := act{first.name, r.upTo(1200 * time.Millisecond), first.do}
	if r.chance(3) {
		return a
	}
	next := f.drawVerb(agent, repo, one(r, "diff", "apply", "apply", "apply", "checkout", "sync", "sync", "exit",
		"detach"))
	next.after = r.upTo(900 * time.Millisecond)
	a.name += fmt.Sprintf(", then after %s %s", next.after, next.name)
	a.do = func(ctx context.Context) error {
		return errors.Join(first.do(ctx), load.Pause(ctx, next.after), next.do(ctx))
	}
	return a
}

// drawVerb makes one call.
func (f *forest) drawVerb(agent string, repo *repository, verb string) act {
	r := f.r
	body := map[string]any{"workspace_id": repo.dir}
	takes := map[string]bool{"apply": true, "checkout": true}[verb]
	all := (verb == "apply" || verb == "diff") && r.chance(3)
	switch {
	case verb == "attach":
		body = map[string]any{"path": repo.dir}
	case verb == "exit":
		body = map[string]any{}
	case verb == "use":
		body = map[string]any{"path": filepath.Join(repo.dir, one(r, "", "", "sub")), "wait": r.chance(3),
			"mode": one(r, "direct", "direct", "isolated")}
	case verb == "checkout":
		f.branches++
		body["branch"] = fmt.Sprintf("taken-%d", f.branches)
	case all:
		body = map[string]any{}
	}
	what := strings.ReplaceAll(fmt.Sprint(verb, " ", body, " of ", agent), r.dir+"/", "")
	return act{name: what, do: func(ctx context.Context) error {
		for _, other := range f.repositories {
			if takes && (all || other == repo) {
				other.mu.Lock()
				defer other.mu.Unlock()
				other.taken = true
			}
		}
		ctx, cancel := context.WithTimeoutCause(ctx, load.Patience, fmt.Errorf("%s: no answer in time", what))
		defer cancel()
		return f.pass(verb, f.serve.Workspace(ctx, agent, verb, body))
	}}
}

// drawTouch makes something that happens to a child of an agent, if that has one then.
func (f *forest) drawTouch() act {
	agent, how := one(f.r, f.agents...), one(f.r, "stop the child", "ask the child", "kill its container")
	return act{how + " of " + agent, f.r.upTo(2 * time.Second), func(ctx context.Context) error {
		list, err := f.serve.Client.Tasks(ctx, agent, 20)
		for _, t := range list {
			switch {
			case t.Kind != tasks.KindChild || t.Status.Terminal():
				continue
			case how == "stop the child":
				_, err = f.serve.Client.StopTask(ctx, agent, t.ID, false)
			case how == "ask the child":
				_, err = f.serve.Client.TaskInput(ctx, agent, t.ID, tasks.Input{Input: string(load.Line) + " once more."})
			default:
				docker("kill")(ctx, f.world, fault{agent: t.ChildAgentID})
			}
			return f.pass(how, err)
		}
		return f.pass("find a child", err)
	}}
}

// pass notes what came of a call. What the operator can be refused, and that the daemon is gone, are no failures.
func (f *forest) pass(what string, err error) error {
	e, typed := errors.AsType[*state.Error](err)
	switch {
	case err == nil:
		f.r.struck(what)
		return nil
	case !typed:
		return err
	case e.Code == wire.CodeUnreachable || e.Code == wire.CodeDisconnected || wire.Retryable(e.Code):
		f.r.struck(what + ": no daemon")
		return nil
	case wire.Status(e.Code) < 500:
		f.r.struck(what + ": " + string(e.Code))
		return nil
	}
	return fmt.Errorf("%s: %w", e.Code, err)
}

// drawEdit makes a change of the user, which git records at times.
func (f *forest) drawEdit() act {
	repo, name, commit := one(f.r, f.repositories...), one(f.r, "user", "user", "shared", "sub/a"), f.r.chance(2)
	return act{fmt.Sprintf("edit %s of %s, commit %v", name, filepath.Base(repo.dir), commit),
		f.r.upTo(1200 * time.Millisecond), func(ctx context.Context) error { return repo.edit(ctx, name, commit) }}
}

func (repo *repository) edit(ctx context.Context, name string, commit bool) error {
	repo.mu.Lock()
	defer repo.mu.Unlock()
	repo.lines++
	repo.edited[name] = true
	file, err := os.OpenFile(filepath.Join(repo.dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(file, "user line %d\n", repo.lines)
		err = errors.Join(err, file.Close())
	}
	if err != nil || !commit {
		return err
	}
	repo.commits = true
	return repo.git(ctx, "commit", "-qam", fmt.Sprint("edit ", repo.lines))
}

func (f *forest) listings() (all []map[string]string) {
	for _, repo := range f.repositories {
		all = append(all, load.Must(check.Listing(repo.dir)))
		repo.edited, repo.commits, repo.taken = make(map[string]bool), false, false
	}
	return all
}

// look has the product collect what is left over, and checks repositories and trees.
func (f *forest) look(ctx context.Context, before []map[string]string) {
	p := f.r.start("gc", []string{"HOLON_HOME=" + f.serve.Home, "HOME=" + f.r.dir, "DOCKER_HOST=unix://" + f.r.path("e")},
		f.r.dir, load.Must(programs.Path("holon")), "gc")
	if code := load.Must(p.Wait()); code != 0 {
		load.Failf("holon gc ended with %d\n%s", code, p.Tail())
	}
	for i, repo := range f.repositories {
		load.Check(repo.unharmed(before[i]))
	}
	f.kept(ctx)
}

// unharmed checks that what the user has is there once, and that nothing changed but what was meant to.
func (repo *repository) unharmed(before map[string]string) error {
	after, err := check.Listing(repo.dir)
	if err != nil {
		return err
	}
	users := 0
	for _, name := range []string{"user", "shared", "sub/a"} {
		data, err := os.ReadFile(filepath.Join(repo.dir, name))
		if err != nil {
			return err
		}
		users += strings.Count(string(data), "user line ")
	}
	if users != repo.lines {
		return fmt.Errorf("the user wrote %d lines in %s, and there are %d", repo.lines, repo.dir, users)
	}
	for path := range after {
		rel := strings.TrimPrefix(path, repo.dir+"/")
		if strings.HasPrefix(filepath.Base(path), ".holon-apply-") {
			return fmt.Errorf("an apply left %s", path)
		}
		inGit := rel == ".git" || strings.HasPrefix(rel, ".git/")
		if after[path] == before[path] || repo.edited[rel] || inGit && (repo.commits || repo.taken) || !inGit && repo.taken {
			continue
		}
		return fmt.Errorf("%s of the user was changed: %s, before %s", path, after[path], before[path])
	}
	return nil
}

// archive removes an agent, at times with a daemon that is killed meanwhile.
func (f *forest) archive(ctx context.Context) {
	agent, kill, after := one(f.r, f.agents...), f.r.chance(2), f.r.upTo(300*time.Millisecond)
	f.r.tell("%s is removed, and holon killed %s after it: %v", agent, after, kill)
	load.Must(f.serve.Client.Archive(ctx, agent, wire.Archive{Force: true}))
	if kill {
		pause(ctx, after)
		f.serve.Kill()
		load.Check(f.serve.Start(ctx))
	}
	led := load.Must(check.OpenLedger(f.serve.Ledger()))
	defer led.Close()
	load.Check(load.Eventually(ctx, load.Patience, func() error { // a process that begins sees to it meanwhile
		return errors.Join(led.Quiet(ctx), led.Held(ctx, f.home))
	}))
	f.kept(ctx)
}

// kept checks that trees are what the ledger says, and that nothing that an agent wrote is lost.
func (f *forest) kept(ctx context.Context) {
	led := load.Must(check.OpenLedger(f.serve.Ledger()))
	defer led.Close()
	agents := load.Must(led.Agents(ctx))
	load.Check(led.Held(ctx, f.home))
	lines := make(map[string]bool)
	var repositories, places []string
	for _, repo := range f.repositories {
		repositories = append(repositories, repo.dir)
	}
	for _, agent := range agents {
		ran := filepath.Join(f.home.AgentDir(agent), "ran")
		for line := range load.Must(check.Ran(ran, load.Must(led.Turns(ctx, agent)))) {
			lines[line] = true
		}
		trees := filepath.Join(f.home.AgentPrivateDir(agent), "workspaces")
		entries, err := os.ReadDir(trees)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			load.Check(err)
		}
		home := f.home.AgentDir(agent)
		places = append(places, filepath.Join(home, "lines"), filepath.Join(home, "shared"))
		for _, e := range entries {
			places = append(places, filepath.Join(trees, e.Name()))
		}
	}
	places = append(places, load.Must(led.Patches(ctx, f.home))...)
	load.Check(check.Kept(ctx, lines, repositories, places, ".git"))
}
