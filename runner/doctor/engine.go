package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/state"
	"holon/state/files"
)

// place is the container that the doctor makes, and what it saw.
type place struct {
	eng    engine.Engine
	info   *engine.Info // nil: the engine can't be used
	user   *engine.User // nil: the engine confines nothing
	dir    string       // shared with the container
	word   string       // what the host's file says
	spec   engine.Spec
	handle engine.Handle
	state  *engine.State // nil: there is no container
	begin  time.Time
	end    time.Time
	seen   *turns.Place // nil: it did not run
}

// Paths of the doctor's container.
const (
	agentdPath = "/holon/bin/agentd"
	sharedPath = "/holon/doctor"
)

func (e *examination) engineChecks() []named {
	return []named{
		{"engine", e.checkEngine}, {"api", e.checkAPI}, {"support", e.checkSupport}, {"image", e.checkImage}, {"container", e.checkContainer},
		{"cgroups", e.checkCgroups},
		{"isolation", e.checkIsolation}, {"user", e.checkUser}, {"mounts", e.checkMounts}, {"clock", e.checkClock},
		{"agent", e.checkAgent},
	}
}

func (e *examination) checkEngine(ctx context.Context) []Result {
	if e.home == nil {
		return skipped(noHome)
	}
	p := &e.place
	var err error
	if p.eng, err = e.Engine(*e.home); err != nil {
		return one(failed(err))
	}
	info, err := p.eng.Check(ctx)
	if err != nil {
		return one(failed(ended(ctx, err)))
	}
	if p.user, err = runner.RunsAs(e.User, p.eng); err != nil {
		return one(failed(err))
	}
	p.info = &info
	if p.user == nil {
		return one(seen("%s confines nothing: the agent's commands run as you, on this machine",
			p.eng.Name()).but(statusWarning, "use --engine docker"))
	}
	text := fmt.Sprintf("%s %s, %s, runtime %s", info.Engine, info.Version, info.Name, info.Runtime)
	if info.Rootless {
		text += ", rootless"
	}
	return one(seen("%s", text))
}

const noEngine = "the engine can't be used"

func (e *examination) checkAPI(context.Context) []Result {
	switch info := e.place.info; {
	case info == nil:
		return skipped(noEngine)
	case info.APIVersion == "":
		return skipped("the engine has none")
	default: // one that is too old can't be used
		return one(seen("version %s", info.APIVersion))
	}
}

// checkImage makes a container of the image, which shows whether it is there.
func (e *examination) checkImage(ctx context.Context) []Result {
	p := &e.place
	if p.info == nil {
		return skipped(noEngine)
	}
	if _, err := e.Agentd(); err != nil {
		return skipped("there is no agentd to put into a container")
	}
	if err := e.create(ctx); err != nil {
		return one(failed(ended(ctx, err)))
	}
	if p.user == nil {
		return skipped("the engine has none")
	}
	id, _ := strings.CutPrefix(p.state.ImageID, "sha256:")
	return one(seen("%s (%.12s) is there", e.Image, id))
}

// create makes the shared directory and the container.
func (e *examination) create(ctx context.Context) (err error) {
	p := &e.place
	agentd, err := e.Agentd()
	if err != nil {
		return err
	}
	if p.dir, err = os.MkdirTemp(e.home.RunsDir(), ".probe-doctor-"); err != nil {
		return fmt.Errorf("make a directory to share: %w", err)
	}
	p.word = rand.Text()
	if err := os.WriteFile(filepath.Join(p.dir, turns.ExchangeHost), []byte(p.word), 0o644); err != nil {
		return fmt.Errorf("write the sentinel: %w", err)
	}
	if p.user != nil && os.Geteuid() == 0 {
		if err := os.Lchown(p.dir, p.user.UID, p.user.GID); err != nil {
			return fmt.Errorf("give the container's user the shared directory: %w", err)
		}
	}
	mounts := []engine.Mount{{Source: agentd, Target: agentdPath, ReadOnly: true}, {Source: p.dir, Target: sharedPath}}
	p.spec, err = engine.Spec{
		Name: "holon-doctor-" + strings.ToLower(p.word[:12]), Image: e.Image, User: p.user, Runtime: e.Runtime,
		Mounts: mounts,
		Labels: map[string]string{runner.LabelRole: "doctor", runner.LabelHome: e.home.Dir()}, Memory: e.Memory,
		NanoCPUs: e.NanoCPUs,
		Args: []string{p.eng.Path(mounts, agentdPath), "debug", "container", "--exchange",
			p.eng.Path(mounts, sharedPath)},
	}.Complete()
	if err != nil {
		return err
	}
	handle, err := p.eng.Create(ctx, p.spec)
	if err != nil {
		return err
	}
	p.handle = handle
	made, err := p.eng.Inspect(ctx, handle)
	if err != nil {
		return errors.Join(err, p.eng.Remove(context.WithoutCancel(ctx), handle))
	}
	p.state = &made
	return nil
}

const noContainer = "there is no container"

// maxReport bounds what the container may say.
const maxReport = 64 << 10

// checkContainer runs agentd there, which says what it sees.
func (e *examination) checkContainer(ctx context.Context) []Result {
	p := &e.place
	if p.state == nil {
		return skipped(noContainer)
	}
	p.begin = time.Now()
	if err := p.eng.Start(ctx, p.handle); err != nil {
		return one(failed(ended(ctx, err)))
	}
	exit, err := p.eng.Wait(ctx, p.handle)
	p.end = time.Now()
	if err != nil {
		return one(failed(ended(ctx, err)))
	}
	said, err := p.eng.Logs(ctx, p.handle, maxReport)
	if err != nil {
		return one(failed(ended(ctx, err)))
	}
	var report turns.Place
	if err := json.NewDecoder(bytes.NewReader(said)).Decode(&report); err != nil || exit.Code != 0 {
		return one(seen("agentd ended with code %d and said %q", exit.Code,
			visible.OneLine(string(said), 300)).but(statusFailed,
			"use the agentd of this holon (HOLON_AGENTD), and an image for this machine's processor"))
	}
	p.seen = &report
	took := p.end.Sub(p.begin).Milliseconds()
	if report.Programs["sh"] == "" {
		return one(seen("runs (%d ms), but has no sh, by which agents run commands", took).but(statusWarning,
			"use an image with a shell"))
	}
	if report.Programs["git"] == "" {
		return one(seen("runs (%d ms), but has no git for the agent", took).but(statusWarning,
			"use an image with git, such as that of make image"))
	}
	return one(seen("runs, %s/%s, %d ms", report.OS, report.Arch, took))
}

// limitAxes are what control groups keep.
var limitAxes = []string{"memory", "pids", "cpu"}

// checkCgroups compares the limits that were asked for with those that the engine
// says, and those with what the container sees.
func (e *examination) checkCgroups(context.Context) []Result {
	p := &e.place
	switch {
	case p.state == nil:
		return skipped(noContainer)
	case p.user == nil:
		return skipped("the engine limits nothing")
	}
	if weak := e.weak(func(name string) bool { return slices.Contains(limitAxes, name) }); weak != nil {
		return weak
	}
	limits := fmt.Sprintf("version %s: memory %s, %d processes, %s CPUs", p.info.CgroupVersion,
		visible.Size(p.spec.Memory), p.spec.PidsLimit, p.state.Isolation.CPU.Value)
	if s := p.seen; s != nil && s.CgroupVersion != 0 {
		if s.Memory > p.spec.Memory || s.Pids > p.spec.PidsLimit ||
			s.Memory == 0 && p.spec.Memory != engine.Unlimited || s.Pids == 0 && p.spec.PidsLimit != engine.Unlimited {
			return one(seen("the engine says %s; the container sees memory %d, %d processes (0: none)", limits,
				s.Memory, s.Pids).but(statusWarning,
				"look whether the kernel has the memory and pids controllers, and "+
					"the engine uses them"))
		}
		return one(seen("%s; the container sees the same", limits))
	}
	return one(seen("%s", limits))
}

// checkIsolation is the same for what else confines a container.
func (e *examination) checkIsolation(context.Context) []Result {
	p := &e.place
	switch {
	case p.state == nil:
		return skipped(noContainer)
	case p.user == nil:
		return skipped("the engine confines nothing")
	}
	if weak := e.weak(func(name string) bool { return !slices.Contains(limitAxes, name) }); weak != nil {
		return weak
	}
	if s := p.seen; s != nil && (strings.Trim(s.Capabilities, "0") != "" || !s.NoNewPrivileges) {
		return one(seen("the engine says otherwise, but the container has the capabilities %s, and no_new_privs is %t",
			s.Capabilities, s.NoNewPrivileges).but(statusFailed, "use another engine or --runtime"))
	}
	iso := p.state.Isolation
	return one(seen("capabilities %s, seccomp %s, network %s, read-only root, no new privileges",
		iso.Capabilities.Value, iso.Seccomp.Value, iso.Network.Value))
}

// weak is what the engine keeps less strictly than asked for, nil for nothing.
func (e *examination) weak(about func(string) bool) (list []Result) {
	names := engine.Weak(e.place.state.Isolation, e.place.spec)
	for name, axis := range e.place.state.Isolation.Axes() {
		if !about(name) || !slices.Contains(names, name) {
			continue
		}
		r := seen("%s is %s (%s)", name, axis.Level, axis.Value)
		if slices.Contains(e.Accept, name) {
			list = append(list, r.but(statusWarning, "it was accepted (--accept-weaker)"))
		} else {
			list = append(list, r.but(statusFailed, "use another engine or --runtime, or --accept-weaker "+name+
				" if that is what you want"))
		}
	}
	return list
}

const notRun = "nothing ran in a container"

// checkUser compares who the container's user is there and here.
func (e *examination) checkUser(context.Context) []Result {
	p := &e.place
	if p.seen == nil {
		return skipped(notRun)
	}
	want := engine.User{UID: os.Geteuid(), GID: os.Getegid()}
	if p.user != nil {
		want = *p.user
	}
	const remedy = "use an engine without user namespaces (no userns-remap, not rootless), so that both sides mean " +
		"the same by a number"
	if got := (engine.User{UID: p.seen.UID, GID: p.seen.GID}); got != want {
		return one(seen("it runs as %d:%d instead of %d:%d", got.UID, got.GID, want.UID, want.GID).but(statusFailed,
			remedy))
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(p.dir, turns.ExchangeKept), &st); err != nil {
		why := "it made no file"
		if x := p.seen.Exchange; x != nil && x.Error != "" {
			why = x.Error
		}
		return one(seen("%d:%d can't share files: %s", want.UID, want.GID, why).but(statusFailed, remedy))
	}
	if int(st.Uid) != want.UID || int(st.Gid) != want.GID {
		return one(seen("files of the container's user %d:%d belong to %d:%d here", want.UID, want.GID, st.Uid,
			st.Gid).but(statusFailed, remedy))
	}
	if os.Geteuid() != 0 && p.user != nil {
		return one(seen("%d:%d there and here; your containers share the limits that the kernel has for each user",
			want.UID, want.GID))
	}
	return one(seen("%d:%d there and here", want.UID, want.GID))
}

// checkMounts asks whether host and container see each other's files.
func (e *examination) checkMounts(context.Context) []Result {
	p := &e.place
	if p.seen == nil || p.seen.Exchange == nil {
		return skipped(notRun)
	}
	const remedy = "set HOLON_HOME to a directory that the engine can mount: of this machine, and shared with it " +
		"where it runs in a virtual machine (file sharing); DOCKER_HOST must not name another machine"
	bad := func(format string, args ...any) []Result { return one(seen(format, args...).but(statusFailed, remedy)) }
	x := p.seen.Exchange
	if x.Error != "" {
		return bad("the container could not use %s: %s", p.dir, x.Error)
	}
	if x.Read != p.word {
		return bad("the container does not see what was written to %s", p.dir)
	}
	if _, err := os.Lstat(filepath.Join(p.dir, turns.ExchangeGone)); !errors.Is(err, fs.ErrNotExist) {
		return bad("the sentinel is still in %s, although the container deleted it", p.dir)
	}
	kept, err := durable.ReadFile(filepath.Join(p.dir, turns.ExchangeKept), maxExchanged) // a container wrote it
	if err != nil || string(kept) != p.word {
		return bad("what the container wrote is not in %s", p.dir)
	}
	return one(seen("a sentinel was written, read back and deleted in the container; host and container see each " +
		"other's files"))
}

// maxExchanged bounds the file that a container writes.
const maxExchanged = 1 << 10

// maxDrift is how much the clocks may differ.
const maxDrift = 5 * time.Second

func (e *examination) checkClock(context.Context) []Result {
	p := &e.place
	if p.seen == nil {
		return skipped(notRun)
	}
	drift := time.Duration(0)
	if t := p.seen.Time; t.Before(p.begin) {
		drift = t.Sub(p.begin)
	} else if t.After(p.end) {
		drift = t.Sub(p.end)
	}
	if drift.Abs() > maxDrift {
		return one(seen("the container's clock is off by %s", drift.Round(time.Second)).but(statusWarning,
			"set the clock of the engine's machine; restart its virtual machine if it has one"))
	}
	return one(seen("the same on both sides"))
}

// checkAgent starts a session as a run would; its agentd has to answer on its
// socket.
func (e *examination) checkAgent(ctx context.Context) []Result {
	p := &e.place
	if p.state == nil {
		return skipped(noContainer)
	}
	agentd, err := e.Agentd()
	if err != nil {
		return one(failed(err))
	}
	dir := filepath.Join(p.dir, "session")
	id := state.NewRunID()
	begin := time.Now()
	s, err := runner.Start(ctx, runner.Config{
		ID: id, Engine: p.eng, Agentd: agentd, Image: e.Image, Dir: dir, SocketDir: e.home.IPCDir(id),
		Labels: map[string]string{runner.LabelRole: "doctor", runner.LabelHome: e.home.Dir()},
		Log:    slog.New(slog.DiscardHandler), Version: e.Version,
		Models: runner.Models{Model: "scripted/demo"},
		// judged already
		Confinement: runner.Confinement{Memory: e.Memory, NanoCPUs: e.NanoCPUs, User: e.User, Runtime: e.Runtime,
			Accept: runner.AxisNames()},
	})
	if err != nil {
		return one(failed(ended(ctx, err)))
	}
	took := time.Since(begin)
	health, err := s.Health(ctx)
	if err = errors.Join(ended(ctx, err), s.Close(context.WithoutCancel(ctx))); err != nil {
		return one(failed(err))
	}
	if health.Version != e.Version {
		return one(seen("agentd is version %s, holon is %s", health.Version, e.Version).but(statusWarning,
			"build or install both together"))
	}
	return one(seen("agentd %s answers on its socket, %d ms after the start", health.Version, took.Milliseconds()))
}

// close removes what was made.
func (p *place) close(ctx context.Context) error {
	var errs []error
	if p.state != nil {
		errs = append(errs, p.eng.Remove(ctx, p.handle))
	}
	if p.dir != "" {
		errs = append(errs, files.RemoveAll(p.dir))
	}
	if p.eng != nil {
		errs = append(errs, p.eng.Close())
	}
	return errors.Join(errs...)
}
