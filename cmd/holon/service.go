package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/runner/service"
	"holon/runner/settings"
	"holon/state"
)

// codeNeedsConsent is the code of a value of a project that no person agreed to.
const codeNeedsConsent state.Code = "consent_needed"

// agree asks once about what the project's file sets and only a person may put into force. Where no person can be
// asked, or the answer is no, the run is refused.
func (o *runOptions) agree(ctx context.Context) error {
	for _, c := range o.Pending {
		what := fmt.Sprintf("%s: %s is in force once you agree: %s", settings.ProjectFile, c.Key,
			visible.OneLine(c.Value, 1000))
		refused := &state.Error{Code: codeNeedsConsent, Param: settings.ProjectFile + ": " + c.Key,
			Message: "a person has to agree to " + visible.OneLine(c.Value, 1000),
			Hint:    "start the run at a terminal, which asks once, or give each with --" + strings.TrimSuffix(c.Key, "s")}
		if !o.streams.InTTY || !o.streams.ErrTTY || o.Detached {
			return refused
		}
		o.streams.say("holon: " + what)
		sure, err := o.streams.ask(ctx, "agree, for this project as it stands? [y/N] ")
		if err != nil {
			return err
		}
		if !sure {
			refused.Message = "you did not agree to " + visible.OneLine(c.Value, 1000)
			return refused
		}
		home, err := state.MakeHome(o.Home, o.UserHome)
		if err == nil {
			err = o.Loaded.Agree(c, home.Dir(), time.Now())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// servicesOf are what a run has next to its agent.
func servicesOf(s *settings.Settings) ([]service.Service, error) {
	if len(s.Services) > 0 && s.Engine == settings.EngineLocal {
		return nil, usage("--service", "the local engine has no containers",
			"use --engine docker, or start the service yourself")
	}
	return service.ParseAll(s.Services)
}

// servicesText names them for a person.
func servicesText(m *state.Manifest) string {
	list := make([]string, len(m.Services))
	for i, s := range m.Services {
		list[i] = s.Name + " (" + s.Image + ")"
	}
	return strings.Join(list, ", ")
}
