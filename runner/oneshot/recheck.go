package oneshot

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"holon/responses"
	"holon/runner"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/files"
)

// recordCheck is what another holon needs to begin the check of the run, nil if it has none or if a secret, which no
// record has, is part of it.
func (o *Run) recordCheck() *sessions.Check {
	cfg := &o.Session
	if o.Check == nil || len(cfg.SecretEnv) > 0 {
		return nil
	}
	texts := append([]string{o.Check.Command}, cfg.Env...)
	for _, s := range cfg.Services {
		texts = append(texts, s.Env...)
	}
	for _, text := range texts {
		if cfg.Secrets.Text(text) != text {
			return nil
		}
	}
	c := &sessions.Check{Command: o.Check.Command, TimeoutMS: o.Check.Timeout.Milliseconds(), Base: o.base,
		Agentd: cfg.Agentd, Image: cfg.Image, InputDir: cfg.InputDir, Env: cfg.Env, Services: cfg.Services,
		Confined: cfg.Confinement}
	if given := o.Check.Paths.given; given != nil {
		c.Paths = &given
	}
	return c
}

// takeUpCheck has a run that is followed to its end checked as its own holon would have done. A check has no effects
// outside of its container, so that one that was cut off is made again.
func (rc *Recovery) takeUpCheck(r *execution, rec *sessions.Record) {
	c := rec.Check
	if c == nil {
		return
	}
	var given []string
	if c.Paths != nil {
		given = append([]string{}, *c.Paths...)
	}
	paths, err := NewPaths(given)
	if err != nil { // it was edited by hand
		r.config.Log.Warn("the check cannot be made", "run", r.run.ID(), "err", err)
		return
	}
	o := r.spec
	o.Home, o.Version, o.base = rc.Home, rc.Version, c.Base
	o.Check = &Check{Command: c.Command, Paths: paths, Timeout: time.Duration(c.TimeoutMS) * time.Millisecond}
	o.Session = runner.Config{Engine: r.config.Engine, Agentd: c.Agentd, Image: c.Image, Version: rc.Version,
		Secrets: rc.Secrets, Log: rc.Log, Telemetry: rc.Telemetry, Confinement: c.Confined,
		Reach: runner.Reach{Services: c.Services}, Files: runner.Files{InputDir: c.InputDir},
		Environment: runner.Environment{Env: slices.Clone(c.Env)}}
}

// Forget ends what is left of a run that no process holds any more, and removes it. One that is not there is success.
func (rc *Recovery) Forget(ctx context.Context, id string) error {
	_, err := rc.recover(ctx, id, recovery{})
	if state.IsCode(err, state.CodeRunNotFound) {
		return nil
	}
	if err != nil && !state.IsCode(err, codeEnded) {
		return err
	}
	run, err := files.New(rc.Home).Take(ctx, id)
	if err != nil {
		return err
	}
	return run.Remove()
}

// forgetCheck removes what is left of a check that was cut off with its holon.
func (r *execution) forgetCheck() error {
	if !r.recovered {
		return nil
	}
	return files.RemoveAll(filepath.Join(r.run.Dir(), state.PartCheck))
}

// noteEnd records how the turn ended, for a holon that takes the run up while it is collected or checked.
func (r *execution) noteEnd() {
	end := r.turn.Response
	if end == nil || r.turn.Err != nil || r.spec.disposable {
		return
	}
	r.record.Seen = &sessions.Seen{ResponseID: end.ID, Status: cmp.Or(end.Status, responses.StatusFailed)}
	if err := r.session.Save(); err != nil {
		r.config.Log.Warn("how the turn ended is not recorded", "run", r.run.ID(), "err", err)
	}
}
