package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"holon/internal/providers"
	"holon/runner/doctor"
	"holon/runner/engine"
	"holon/runner/settings"
	"holon/state"
)

func newDoctorCommand(streams Streams) *cobra.Command {
	s := &surface{base: base{streams: streams, homeless: true}}
	cmd := s.makeCommand("doctor", "Look at everything that a run needs, and say what is wrong",
		runExamination)
	cmd.Long = `Look at everything that a run needs: the state home and its disk, git, agentd, the
engine and what it does to a container, keys, and whether the models answer. Each
line says what was seen and, where that is not as it should be, the remedy.

The engine runs two short containers; a sentinel file is written, read back and
deleted in one as the container's user. Models are asked for a word, which costs
a few tokens; --offline asks no provider. Nothing is left behind.

Exit codes: 0 a run can work, 1 something failed, 2 usage error.`
	f := cmd.Flags()
	f.String("engine", settings.EngineAuto, "auto, docker, kubernetes, or local, which confines nothing")
	f.String("image", settings.DefaultImage, "container `image`")
	f.StringP("model", "m", "", "model to ask, as `provider/name` (default as of a run)")
	f.String("user", "", "`UID:GID` of the container (default as of a run)")
	f.String("runtime", "", "`name` of what runs containers in the engine (default the engine's)")
	f.StringSlice("accept-weaker", nil,
		"`axes` of the isolation that the engine may enforce less strictly than asked for")
	f.Bool("offline", false, "ask no provider")
	return cmd
}

func runExamination(ctx context.Context, s *surface) error {
	d, err := s.doctor(ctx)
	if err != nil {
		return s.named(&s.host, err)
	}
	results := []doctor.Result{}
	well := d.Examine(ctx, func(r doctor.Result) {
		results = append(results, r)
		if !s.JSON {
			s.showResult(r)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.JSON {
		err = printJSON(s.streams, struct {
			OK      bool            `json:"ok"`
			Version string          `json:"version"`
			Results []doctor.Result `json:"results"`
		}{well, d.Version, results})
	}
	if err == nil && !well {
		err = exitError(state.OutcomeFailure.ExitCode())
	}
	return err
}

// doctor is one for what a run with these flags would use.
func (s *surface) doctor(ctx context.Context) (*doctor.Doctor, error) {
	if err := override(s.Loaded, s.flags); err != nil {
		return nil, err
	}
	o := &s.configured
	confined, err := confinementOf(&o.Settings)
	if err != nil {
		return nil, err
	}
	d := &doctor.Doctor{
		HolonHome: s.Home, UserHome: s.UserHome, Version: buildVersion(), Agentd: func() (string, error) {
			return findAgentd(s.Agentd)
		},
		Engine: func(home state.Home) (engine.Engine, error) {
			return s.newEngine(engineName(o.Loaded.Engine), o.Loaded.Link, home)
		},
		Image: o.Image, User: confined.User, Runtime: confined.Runtime, Accept: confined.Accept, Memory: confined.Memory,
		NanoCPUs: confined.NanoCPUs,
		Loaded:   s.Loaded, Chosen: o.Model != "", Offline: s.asked("offline"),
	}
	if d.Quota, err = o.quota(); err != nil {
		return nil, err
	}
	if d.Workspace, err = filepath.Abs(s.workspace); err != nil {
		return nil, usage("--workspace", err.Error(), "")
	}
	if image, _ := s.projectImage(ctx, o.Loaded, d.Workspace); image != "" {
		d.Image = image
	}
	if !d.Chosen {
		o.Model = settings.DefaultModel
	}
	d.Refs = o.Refs()
	s.Loaded.Consider(d.Refs...)
	for _, ref := range d.Refs {
		if _, _, ok := providers.SplitRef(ref); !ok {
			return nil, notAModel("--model", ref)
		}
	}
	d.Providers = s.providers()
	return d, nil
}

// showResult prints a result at once: what was seen, and on a terminal below it the remedy.
func (s *surface) showResult(r doctor.Result) {
	if !s.streams.OutTTY {
		_ = printRow(s.streams, r.Status, r.Check, r.Seen, r.Remedy) // main reports that it cannot be written
		return
	}
	_ = s.streams.printVerdict(fmt.Sprintf("%-7s  %-11s  ", r.Status, r.Check), r.Seen, r.Remedy)
}
