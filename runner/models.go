package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"holon/internal/providers"
	"holon/responses/turns"
)

// scenarioFile is where the container finds the scenario that its model plays, next to the host's sockets: the
// directory is mounted, so that the file can be replaced while the container runs.
const scenarioFile = "scenario.yaml"

// SetModels lets the next turns of the session ask other models. The container and what runs in it go on. No turn
// runs. On error the session can make no more turns.
func (s *Session) SetModels(ctx context.Context, m Models) error {
	if s.gateway != nil {
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

// serveModels serves what asks the session's models: the gateway, and the scenario.
func (s *Session) serveModels(ctx context.Context) (err error) {
	if s.cfg.Gateway != nil {
		if s.gateway, err = s.cfg.Gateway.Serve(ctx, s.seam.service(modelSocket), s.gate); err != nil {
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

// Models are the references of the models that the session asks, the first one first.
func (s *Session) Models() []string { return append([]string{s.cfg.Model}, s.cfg.Fallbacks...) }

// ScenarioChanged reports whether the file that the session's model plays is not the one that its container has.
func (s *Session) ScenarioChanged() bool {
	if s.scenario == nil {
		return false
	}
	now, err := os.Stat(s.cfg.Scenario)
	return err != nil || !os.SameFile(now, s.scenario) || now.Size() != s.scenario.Size() ||
		!now.ModTime().Equal(s.scenario.ModTime())
}

// model is the reference by which agentd knows the model.
func (s *Session) model() string {
	if s.cfg.Scenario != "" {
		return providers.Scripted + "/" + s.inside(hostPath) + "/" + scenarioFile
	}
	return s.cfg.Model
}

// namesModels are the classes of facts that name models.
var namesModels = []string{turns.TurnStarted, turns.RoutingDecided, turns.FallbackApplied, turns.ModelRequested,
	turns.ModelCompleted, turns.ModelFailed, turns.RateLimitHit}

// scenarioCopy matches the copy of a scenario, as the model of a provider or with it, as a whole JSON string.
var scenarioCopy = regexp.MustCompile(`"(` + providers.Scripted + `/)?[^"\\]*/host/` +
	regexp.QuoteMeta(scenarioFile) + `"`)

// Named is a fact of a turn with the name that the host has for its first model. A container knows a scenario by the
// path of its copy, which is another one in each container of the local engine.
func Named(ev turns.RuntimeEvent, model string) turns.RuntimeEvent {
	provider, name, _ := providers.SplitRef(model)
	if provider != providers.Scripted || !slices.Contains(namesModels, ev.Type) {
		return ev
	}
	ev.Payload = scenarioCopy.ReplaceAllFunc(ev.Payload, func(found []byte) []byte {
		known := name
		if strings.HasPrefix(string(found), `"`+providers.Scripted+"/") {
			known = model
		}
		text, err := json.Marshal(known)
		if err != nil { // it is text
			return found
		}
		return text
	})
	return ev
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
