package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/toolchain"
	"holon/internal/transfer"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/link"
	"holon/runner/settings"
	"holon/state"
	"holon/state/files"
)

// place is the container that the doctor makes, and what it saw.
type place struct {
	eng    engine.Engine
	info   *engine.Info // nil: the engine cannot be used
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
		{"engine", needsHome, e.checkEngine}, {"api", needsEngine, e.checkAPI}, {"support", needsEngine, e.checkSupport},
		{"image", needsEngine, e.checkImage}, {"container", needsContainer, e.checkContainer},
		{"cgroups", needsContainer, e.checkCgroups}, {"isolation", needsContainer, e.checkIsolation},
		{"user", needsReport, e.checkUser}, {"mounts", needsReport, e.checkMounts}, {"clock", needsReport, e.checkClock},
		{"agent", needsContainer, e.checkAgent}, {"tools", needsReport, e.checkTools},
	}
}

func (e *examination) checkEngine(ctx context.Context) []Result {
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

func (e *examination) checkAPI(context.Context) []Result {
	if e.place.info.APIVersion == "" {
		return skipped("the engine has none")
	}
	return one(seen("version %s", e.place.info.APIVersion)) // one that is too old cannot be used
}

// checkImage makes a container of the image, which shows whether it is there.
func (e *examination) checkImage(ctx context.Context) []Result {
	p := &e.place
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
	r := seen("%s (%.12s) is there", e.Image, id)
	if cleaner, ok := p.eng.(engine.ImageCleaner); ok {
		if old, err := cleaner.OldImages(ctx, false); err == nil && len(old) > 0 {
			r = seen("%s; %d old images of holon's own are, too", r.Seen, len(old)).but(statusWarning, "holon gc")
		}
	}
	return one(r)
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
	if err := os.WriteFile(filepath.Join(p.dir, turns.SharedFromHost), []byte(p.word), 0o644); err != nil {
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

// maxReport bounds what the container may say.
const maxReport = 64 << 10

// checkContainer runs agentd there, which says what it sees.
func (e *examination) checkContainer(ctx context.Context) []Result {
	p := &e.place
	p.begin = time.Now()
	if err := p.eng.Start(ctx, p.handle); err != nil {
		return one(failed(ended(ctx, err)))
	}
	exit, err := p.eng.Wait(ctx, p.handle)
	p.end = time.Now()
	if eng, ok := p.eng.(link.Engine); err == nil && ok && p.handle.Link != "" {
		err = link.Open(eng, p.handle, nil, false, "").Fetch(ctx, p.spec, transfer.Limits{Bytes: maxReport, Files: 16})
	}
	if err != nil {
		return one(failed(ended(ctx, err)))
	}
	output, err := p.eng.Logs(ctx, p.handle, maxReport)
	if err != nil {
		return one(failed(ended(ctx, err)))
	}
	var report turns.Place
	if err := json.NewDecoder(bytes.NewReader(output)).Decode(&report); err != nil || exit.Code != 0 {
		return one(seen("agentd ended with code %d and printed %q", exit.Code,
			visible.OneLine(string(output), 300)).but(statusFailed,
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

// checkTools compares what the files of the workspace need with what the container has.
func (e *examination) checkTools(context.Context) []Result {
	top := settings.RepositoryTop(e.Workspace)
	dir, err := filepath.Rel(top, e.Workspace)
	if err != nil {
		return one(failed(err))
	}
	var has, lacks []string
	for _, n := range toolchain.Needs(os.DirFS(top), ".", filepath.ToSlash(dir)) {
		if e.place.seen.Programs[n.Program] == "" {
			lacks = append(lacks, n.Program+" for "+n.File)
		} else {
			has = append(has, n.Program)
		}
	}
	switch {
	case len(lacks) > 0:
		return one(seen("there is no %s", strings.Join(lacks, ", no ")).but(statusWarning,
			toolchain.Remedy(e.Image)))
	case len(has) == 0:
		return skipped("no file of the workspace says what it needs")
	}
	return one(seen("the workspace needs %s, which are there", strings.Join(has, ", ")))
}

// checkAgent starts a session as a run would; its agentd has to answer on its
// socket.
func (e *examination) checkAgent(ctx context.Context) []Result {
	p := &e.place
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
	health, err := s.Client().Health(ctx)
	iso := s.Isolation
	if err = errors.Join(ended(ctx, err), s.Close(context.WithoutCancel(ctx))); err != nil {
		return one(failed(err))
	}
	if health.Version != e.Version {
		return one(seen("agentd is version %s, holon is %s", health.Version, e.Version).but(statusWarning,
			"build or install both together"))
	}
	if p.user != nil && iso.Separation.Level != engine.HardEnforced {
		return one(e.weaker("privilege_separation", iso.Separation))
	}
	return one(seen("agentd %s answers on its socket, %d ms after the start; its user: %s, commands: %s",
		health.Version, took.Milliseconds(), iso.Separation.Value, iso.User.Value))
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
