package runner

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// scenarioFile is where agentd finds the scenario that its model plays, whatever the model is called, next to the
// host's sockets: the directory is mounted, so that the file can be replaced while the container runs.
const scenarioFile = "scenario.yaml"

// SetModels lets the next turns of the session ask other models. The container and what runs in it go on. No turn
// runs, unless SameGateway. On error the session can make no more turns.
func (s *Session) SetModels(ctx context.Context, m Models) error {
	if s.gateway != nil && !s.SameGateway(m) {
		if err := s.gateway.Close(ctx); err != nil {
			return err
		}
		s.gateway = nil
	}
	s.cfg.Models = m
	if err := s.serveModels(ctx); err != nil {
		return err
	}
	return s.giveSockets()
}

// SameGateway reports whether the models are asked through the gateway that the session has.
func (s *Session) SameGateway(m Models) bool { return m.Gateway == s.cfg.Gateway }

// serveModels serves what asks the session's models: the gateway, and the scenario.
func (s *Session) serveModels(ctx context.Context) (err error) {
	if s.cfg.Gateway != nil && s.gateway == nil {
		if s.gateway, err = s.cfg.Gateway.Serve(ctx, s.seam.service(modelSocket), s.barrier); err != nil {
			return err
		}
	}
	s.scenario = nil
	if s.cfg.Scenario != "" {
		if s.scenario, err = os.Stat(s.cfg.Scenario); err != nil { // before it is copied: what changes then is seen later
			return err
		}
		if err := s.seam.put(s.cfg.Scenario, s.seam.service(scenarioFile)); err != nil {
			return fmt.Errorf("copy the scenario: %w", err)
		}
	}
	return nil
}

// ScenarioChanged reports whether the file that the session's model plays is not the one that its container has.
func (s *Session) ScenarioChanged() bool {
	if s.scenario == nil {
		return false
	}
	now, err := os.Stat(s.cfg.Scenario)
	return err != nil || !os.SameFile(now, s.scenario) || now.Size() != s.scenario.Size() ||
		!now.ModTime().Equal(s.scenario.ModTime())
}

// GatewayModels are the models of a session that its gateway serves.
func (c *Config) GatewayModels() (refs []string) {
	for _, ref := range append([]string{c.Model}, c.Fallbacks...) {
		provider, _, _ := strings.Cut(ref, "/")
		if slices.Contains(c.Gateway.Providers(), provider) && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}
