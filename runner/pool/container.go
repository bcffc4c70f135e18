package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/sessions"
	"holon/runner/turnfiles"
	"holon/state"
)

// agentd must answer a health check within healthTimeout.
const healthTimeout = 5 * time.Second

// ready makes sure that the agent has a container that can take the turn. fresh
// says that it was made for it, and why.
func (k *Pool) ready(ctx context.Context, a *agent, t Turn) (fresh string, err error) {
	return k.readyFor(ctx, a, t, true)
}

// readyFor is ready for something that asks models, or does not.
func (k *Pool) readyFor(ctx context.Context, a *agent, t Turn, models bool) (fresh string, err error) {
	want := k.madeFor(t)
	if a.session == nil {
		if err := k.adopt(ctx, a, t); err != nil {
			return "", err
		}
	}
	why := "it had none"
	if a.session != nil {
		if models {
			err = k.setModels(ctx, a, t)
		}
		if err != nil {
			return "", err
		}
		if why = k.unfit(ctx, a, want); ctx.Err() != nil { // the caller has left, not a fault of the container
			return "", context.Cause(ctx)
		}
		if why == "" {
			return "", errors.Join(a.checkProviders(), a.checkDirs(t, want))
		}
		k.opts.Log.Info("an agent gets another container", "agent", a.id, "why", why)
		if err := k.close(ctx, a); err != nil {
			return "", err
		}
	}
	return why, k.start(ctx, a, t, want)
}

// unfit says why the agent's container cannot take a turn, "" when it can. One
// that is paused is resumed. One in which a task runs stays if it can at all.
func (k *Pool) unfit(ctx context.Context, a *agent, want sessions.Made) string {
	better := ""
	switch {
	case a.session.Ended():
		return "its container ended"
	case a.stale != "" && !k.inUse(a):
		return a.stale
	case a.made.Image != want.Image:
		better = "the image changed"
	case a.unknown != "":
		better = "it knows nothing of the provider of " + a.unknown
	case a.revision.providers != k.current().providers:
		better = "the settings of providers changed"
	case a.made.Version != want.Version:
		better = "another version of holon made it"
	case k.gives():
		better = "another agent waits for a container"
	}
	if better != "" && !k.inUse(a) {
		if works, err := k.works(ctx, a); err != nil || !works {
			return better
		}
	}
	if k.answered(a) {
		return ""
	}
	if _, err := k.working(ctx, a); err != nil && !k.mayAnswer(a) {
		return "agentd does not answer: " + visible.OneLine(err.Error(), 300)
	}
	return ""
}

// setModels lets the agent's container ask the models of a turn. With those of another gateway others cannot
// use it.
func (k *Pool) setModels(ctx context.Context, a *agent, t Turn) error {
	if a.stale != "" && k.inUse(a) {
		return errInUse
	}
	now := k.current() // before Configure, which may know more
	same := slices.Equal(a.models, modelsOf(t)) && a.revision.models == now.models && !a.session.ScenarioChanged()
	if same || a.session.Ended() {
		return nil
	}
	cfg, access, err := k.opts.Configure(ctx, t)
	if err != nil {
		return err
	}
	if !a.session.SameGateway(cfg.Models) && k.inUse(a) {
		return errors.Join(errInUse, closeAccess(access))
	}
	old := a.access
	a.access = access
	a.use(t, cfg.Providers)
	// Half of it would cost the container, also where only the caller has left.
	if err := a.session.SetModels(context.WithoutCancel(ctx), cfg.Models); err != nil {
		a.stale = "its models could not be changed"
		return errors.Join(err, closeAccess(old))
	}
	a.revision.models = now.models
	return closeAccess(old)
}

// use notes the models of a turn, and whether the container has their providers,
// which are listed as in runner.Models.
func (a *agent) use(t Turn, providers []string) {
	a.models, a.unknown = modelsOf(t), ""
	for _, ref := range a.models {
		name, _, _ := strings.Cut(ref, "/")
		for _, p := range providers {
			if strings.HasPrefix(p, name+"=") && !slices.Contains(a.made.Providers, p) {
				a.unknown = ref
			}
		}
	}
}

// checkProviders refuses a turn whose models the container cannot ask, and that is kept
// for its tasks.
func (a *agent) checkProviders() error {
	if a.unknown == "" {
		return nil
	}
	return &Error{Code: codeBusy, Param: "model", Hint: "end the task, or choose another model until it has ended",
		Message: fmt.Sprintf("the container of %s was made before the provider of %.100q was set, and a task "+
			"runs in it", a, a.unknown)}
}

// checkDirs refuses a turn in a workspace whose container, made by another version of holon that may not have mounted
// it, is kept for its tasks.
func (a *agent) checkDirs(t Turn, want sessions.Made) error {
	if t.WorkDir == "" && t.AnchorDir == "" || a.made.Version == want.Version {
		return nil
	}
	return &Error{Code: codeBusy, Param: "workspace", Hint: "end the task, or exit the workspace until it has ended",
		Message: fmt.Sprintf("the container of agent %s was made by another version of holon, and a task runs in it",
			a.id)}
}

func modelsOf(t Turn) []string { return append([]string{t.Model}, t.Fallbacks...) }

// start makes a container from the agent's state.
func (k *Pool) start(ctx context.Context, a *agent, t Turn, want sessions.Made) error {
	if err := k.reserve(ctx, a, t); err != nil {
		return err
	}
	err := k.startReserved(ctx, a, t, want)
	if err != nil {
		k.release(a)
	}
	return err
}

func (k *Pool) startReserved(ctx context.Context, a *agent, t Turn, want sessions.Made) (err error) {
	if info, err := os.Lstat(k.opts.Home.AgentDir(a.id)); k.ofAgents() && (err != nil || !info.IsDir()) {
		return &Error{Code: CodeNoHome, Param: "agent_id", Message: "agent " + a.id + " has no home",
			Hint: "make it with: holon agent create " + a.id, Err: err}
	}
	if err := k.opts.Quota.Admit(ctx, k.opts.Home); err != nil {
		return err
	}
	if err := errors.Join(k.removeStray(ctx, a), k.checkSeal(a), k.clean(ctx, a)); err != nil {
		return err
	}
	t.Image = want.Image
	now := k.current()
	cfg, access, err := k.opts.Configure(ctx, t)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAccess(access))
		}
	}()
	want.Providers, cfg.Image = cfg.Providers, want.Image
	k.complete(a, &cfg)
	session, err := k.sessions.Start(ctx, a.key, &sessions.Record{Made: &want}, cfg)
	if err != nil {
		return err
	}
	k.hold(a, session, access, want, now)
	a.use(t, cfg.Providers)
	return nil
}

// complete fills in what is the same whether a container is made or taken up.
func (k *Pool) complete(a *agent, cfg *runner.Config) {
	cfg.Engine, cfg.Agentd, cfg.Version, cfg.Log, cfg.Secrets = k.opts.Engine, k.opts.Agentd, k.opts.Version,
		k.opts.Log, k.opts.Secrets
	cfg.SessionID = cmp.Or(cfg.SessionID, state.SessionID(a.id))
	cfg.TreeCache = k.opts.Home.CacheDir()
	if k.ofAgents() {
		cfg.AgentHome = k.opts.Home.AgentDir(a.id)
		cfg.AgentDirs = runner.AgentDirs{Workspaces: k.private(a, "workspaces"), Objects: k.private(a, "objects"),
			Anchors: k.private(a, "anchors")}
	}
	cfg.OnContainer = func(c state.ContainerChange) { k.recordChange(a.id, c) }
	if k.opts.Tools != nil {
		cfg.HostTools = k.opts.Tools(a.id)
	}
	// The conversation of an agent is kept as long as the agent.
	cfg.AgentEnv = append(cfg.AgentEnv, "HOLON_RETAIN_AGE=0s", "HOLON_RETAIN_COUNT=0", "HOLON_RETAIN_BYTES=0")
	if k.opts.Tasks != nil { // the agent gets the ends of its tasks by messages
		cfg.AgentEnv = append(cfg.AgentEnv, "HOLON_TASK_NOTICES=false")
	}
}

// hold makes the session the agent's.
func (k *Pool) hold(a *agent, session *sessions.Session, access io.Closer, m sessions.Made, now revision) {
	a.session, a.access, a.made, a.revision = session, access, m, now
	a.stale, a.paused, a.trusted, a.checked, a.unheard = "", false, false, k.opts.Now(), time.Time{}
	k.startFollowing(a)
	k.mu.Lock()
	defer k.mu.Unlock()
	a.idle, a.inForce, a.silent = k.opts.Now(), &session.Isolation, false
	k.take(a)
}

// closeAccess closes what Configure opened, which may be nothing.
func closeAccess(access io.Closer) error {
	if access == nil {
		return nil
	}
	return access.Close()
}

// clean prepares the directories of an agent for another container: what the
// host made for the previous one is made anew, and files that agentd and the agent wrote stay.
func (k *Pool) clean(ctx context.Context, a *agent) error {
	dir := k.private(a, sessionDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the agent's directory: %w", err)
	}
	paths := []string{k.private(a, runner.EgressFile)}
	for _, name := range []string{"input", "skills", "etc", "config", "empty", "scenario.yaml"} {
		paths = append(paths, filepath.Join(dir, name))
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clean the agent's directory: %w", err)
		}
	}
	return k.prune(ctx, a)
}

// removeStray removes every container of the agent: two must never have its state.
func (k *Pool) removeStray(ctx context.Context, a *agent) error {
	return k.leftovers(func(_ context.Context, l sessions.Leftover, remove func() error) (bool, error) {
		if l.Owner != a.id {
			return false, nil
		}
		k.opts.Log.Info("a container that no process holds is removed", "agent", a.id, "container", l.Name)
		return true, k.removeLeft(l, remove)
	}).Containers(ctx, k.opts.Engine)
}

// errUnconfigured says that a container could not be configured, which may change.
var errUnconfigured = errors.New("the container of an agent cannot be configured")

// adopt takes up the container that another process left the agent, for a turn, of
// which only AgentID is needed. Without one that runs the agent has none, and nothing
// of it is left.
func (k *Pool) adopt(ctx context.Context, a *agent, t Turn) error {
	rec, err := k.readRecord(a)
	if err != nil || rec == nil {
		return err
	}
	t.Image = rec.Made.Image
	now := k.current()
	cfg, access, err := k.opts.Configure(ctx, t)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnconfigured, err)
	}
	k.complete(a, &cfg)
	user, err := runner.RunsAs(cfg.User, cfg.Engine)
	if err != nil {
		return errors.Join(err, closeAccess(access))
	}
	session, err := k.sessions.TakeUp(ctx, a.key, rec, cfg, true)
	if err != nil {
		return errors.Join(err, closeAccess(access))
	}
	k.hold(a, session, access, *rec.Made, now)
	a.use(t, cfg.Providers)
	if made := rec.User; made != nil && cfg.User == nil && cfg.UIDs.Has(made.UID) {
		user = made // of the pool, as long as it runs
	}
	if made := rec.User; (made == nil) != (user == nil) || made != nil && *made != *user {
		a.stale = "the user changed"
	}
	a.checked, a.paused = time.Time{}, true // whether it is, resuming finds out
	if gone := session.Gone(); gone != nil {
		k.opts.Log.Info("an agent's container ended while no holon watched it", "agent", a.id, "err", gone)
		return k.close(ctx, a)
	}
	return nil
}

// close ends the agent's container in good order and gives up all that it held.
// What it wrote stays. On error something may be left, which its record still names and the
// next start or sweep removes.
func (k *Pool) close(ctx context.Context, a *agent) error {
	if a.session == nil {
		return nil
	}
	// a container must not stay half closed
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := a.session.Stop(ctx)
	err = errors.Join(err, k.drain(ctx, a))
	a.stopFollowing(err == nil)
	err = errors.Join(err, a.session.Close(ctx, true), closeAccess(a.access))
	a.session, a.access, a.paused = nil, nil, false
	k.release(a)
	if err != nil {
		a.left = true
		return fmt.Errorf("end the agent's container: %w", err)
	}
	return nil
}

// closeTimeout covers a stop with its grace and a slow engine.
const closeTimeout = time.Minute

func (k *Pool) closeLogged(ctx context.Context, a *agent) {
	if err := k.close(ctx, a); err != nil {
		k.opts.Log.Warn("an agent's container could not be given up", "agent", a.id, "err", err)
	}
}

// sessionDir is the name of sessions.Manager.SessionDir.
const sessionDir = "session"

// madeFor is what the container for a turn is to be made from.
func (k *Pool) madeFor(t Turn) sessions.Made {
	return sessions.Made{Image: cmp.Or(t.Image, k.opts.Image), Version: k.opts.Version}
}

// private is the path of what the host keeps in the agent's home.
func (k *Pool) private(a *agent, name string) string {
	return filepath.Join(k.sessions.Dir(a.key), name)
}

// Stored reports whether a response is stored with the files of an agent that are here.
func (k *Pool) Stored(agentID, responseID string) bool {
	if filepath.Base(responseID) != responseID {
		return false
	}
	_, err := os.Lstat(filepath.Join(k.sessions.SessionDir(k.opts.Key(agentID)), "state", turns.ResponsesDir,
		responseID+".ndjson"))
	return err == nil
}

// OpenTurnFile opens a file that a turn of an agent left. No link is followed.
func (k *Pool) OpenTurnFile(agentID, turnID, name string) (*os.File, error) {
	turn, err := turnfiles.Open(k.sessions.SessionDir(k.opts.Key(agentID)), turnID)
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	return turn.OpenPlain(name)
}

// readRecord reads the record of the agent's container that another process wrote, nil when there is none. With one
// that cannot be used, sessions.CodeDamaged, the agent gets no container and loses none.
func (k *Pool) readRecord(a *agent) (*sessions.Record, error) {
	r, err := k.sessions.Record(a.key)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return r, err
}
