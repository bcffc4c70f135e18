package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"holon/internal/visible"
	"holon/runner/engine"
	"holon/runner/service"
	"holon/state"
)

// LabelService is the name of the service that runs in a container, whose role is "service".
const LabelService = "holon.service"

// codeServiceFailed says that a service did not start, takes no connections, or ended. Param is --service.
const codeServiceFailed Code = "service_failed"

// Bounds of the log of a service in an error: lines, and bytes of one.
const (
	serviceLog     = 10
	maxServiceLine = 300
)

// services are what runs next to the agent. Their containers are in the network namespace of the agent's, which has a
// loopback interface and nothing else: no address leads to the host or to another network, and no name is asked of a
// server. They are found by their labels, so no record names them.
type services struct {
	asked  []service.Service
	ports  map[string][]int // by name
	failed chan error       // gets how the first one failed
	forget context.CancelFunc
	watch  sync.WaitGroup

	mu   sync.Mutex // over list
	list []serviceContainer
}

type serviceContainer struct {
	name, image string
	handle      engine.Handle
}

// checkServices refuses services that the engine cannot have.
func (c *Config) checkServices() error {
	if len(c.Services) == 0 {
		return nil
	}
	what, hint := "", "leave it out, or use --network none"
	switch _, images := c.Engine.(engine.Imager); {
	case !images || !ownFiles(c.Engine):
		what, hint = "the local engine has no containers", "use --engine docker, or start the service yourself"
	case c.Network == "host", strings.HasPrefix(c.Network, "container:"):
		what = "with --network " + c.Network + " it would not be the run's own"
	}
	if what == "" {
		return nil
	}
	return &Error{Code: CodeUsage, Param: "--service", Message: what, Hint: hint}
}

// findServices looks for the images of the services, before anything is started.
func (s *Session) findServices(ctx context.Context) error {
	s.services.asked, s.services.ports = s.cfg.Services, make(map[string][]int)
	listens := make(map[int]string)
	for _, asked := range s.services.asked {
		ports, err := s.cfg.Engine.(engine.Imager).Ports(ctx, asked.Image)
		if err != nil {
			return ofService(err, asked)
		}
		for _, port := range ports {
			if other := listens[port]; other != "" {
				return &Error{Code: CodeUsage, Param: "--service",
					Message: fmt.Sprintf("%s and %s both listen at port %d", other, asked.Name, port),
					Hint:    "they share one network: use an image that listens at another port"}
			}
			listens[port] = asked.Name
		}
		s.services.ports[asked.Name] = ports
	}
	return nil
}

// ofService makes an error of the engine one about a service.
func ofService(err error, asked service.Service) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return fmt.Errorf("service %s: %w", asked.Name, err)
	}
	out := *e
	out.Param, out.Message = "--service", asked.Name+": "+e.Message
	if e.Code == engine.CodeImageNotFound {
		out.Hint = "docker pull " + asked.Image + ", or name another image"
	}
	return &out
}

// serviceAddresses are what agentd waits for: NAME:PORT of each service, and the host's sockets where they come by a
// stream.
func (s *Session) serviceAddresses() string {
	var list []string
	if s.streams {
		list = s.socketsInside().Host
	}
	for _, asked := range s.services.asked {
		ports := s.services.ports[asked.Name]
		if len(ports) == 0 {
			list = append(list, asked.Name)
		}
		for _, port := range ports {
			list = append(list, fmt.Sprintf("%s:%d", asked.Name, port))
		}
	}
	return strings.Join(list, ",")
}

// serviceNames are the names by which they are reached.
func (s *Session) serviceNames() (list []string) {
	for _, asked := range s.services.asked {
		list = append(list, asked.Name)
	}
	return list
}

// portions are of the limits of the run: what the agent's container gets, at least half, and what each service gets.
func portions(services int) (agent, each engine.Portion) {
	if services == 0 {
		return agent, each
	}
	n := int64(services)
	of := max(4, 2*n)
	return engine.Portion{Parts: of - n, Of: of}, engine.Portion{Parts: 1, Of: of}
}

// startServices starts the containers of the services, once that of the agent runs, whose network they share.
func (s *Session) startServices(ctx context.Context) error {
	for _, asked := range s.services.asked {
		if err := s.startService(ctx, asked); err != nil {
			return err
		}
	}
	s.watchServices(ctx)
	return nil
}

func (s *Session) startService(ctx context.Context, asked service.Service) error {
	labels := map[string]string{LabelRole: "service", LabelRun: s.cfg.ID, LabelService: asked.Name}
	for k, v := range s.cfg.Labels {
		labels[k] = v
	}
	_, each := portions(len(s.services.asked))
	spec := engine.Spec{Name: s.Spec.Name + "-" + asked.Name, Image: asked.Image, Labels: labels, Env: asked.Env,
		Memory: s.cfg.Memory, NanoCPUs: s.cfg.NanoCPUs, Runtime: s.cfg.Runtime, Network: "container:" + s.handle.ID,
		Portion: each, Service: &engine.Service{Dirs: asked.Dirs}}
	handle, err := s.cfg.Engine.Create(ctx, spec)
	if err != nil {
		return ofService(err, asked)
	}
	s.services.mu.Lock()
	s.services.list = append(s.services.list, serviceContainer{asked.Name, asked.Image, handle})
	s.services.mu.Unlock()
	if err := s.cfg.Engine.Start(ctx, handle); err != nil {
		return ofService(err, asked)
	}
	found, err := s.cfg.Engine.Inspect(ctx, handle)
	if err != nil {
		return ofService(err, asked)
	}
	s.Services = append(s.Services, state.Service{Name: asked.Name, Image: asked.Image, ImageID: found.ImageID,
		Env: asked.Variables(), Ports: append([]int{}, s.services.ports[asked.Name]...), ContainerID: handle.ID,
		Isolation: found.Isolation})
	return nil
}

// watchServices waits for the end of each service, which is an error.
func (s *Session) watchServices(ctx context.Context) {
	// As the container of the agent, they may outlive the caller's context. removeServices and Leave end this wait.
	ctx, s.services.forget = context.WithCancel(context.WithoutCancel(ctx))
	s.services.failed = make(chan error, len(s.services.list))
	for _, c := range s.services.list {
		s.services.watch.Go(func() {
			exit, err := s.cfg.Engine.Wait(ctx, c.handle)
			if ctx.Err() != nil {
				return
			}
			what := fmt.Sprintf("ended with exit code %d", exit.Code)
			switch {
			case err != nil:
				what = "cannot be watched: " + visible.OneLine(err.Error(), maxServiceLine)
			case exit.OOMKilled:
				what = "ran out of its part of the memory"
			}
			s.services.failed <- s.serviceError(ctx, c, what)
		})
	}
}

// serviceError is what became of a service, with the last lines of its log.
func (s *Session) serviceError(ctx context.Context, c serviceContainer, what string) error {
	e := &Error{Code: codeServiceFailed, Param: "--service",
		Hint: "raise --memory, of which it has a part, or give the variables that " + c.image + " needs"}
	e.Message = fmt.Sprintf("%s (%s) %s", c.name, c.image, what)
	logs, err := s.cfg.Engine.Logs(ctx, c.handle, 16<<10)
	if err != nil {
		return e
	}
	var last []string
	for line := range strings.Lines(s.cfg.Secrets.Text(string(logs))) {
		if line = visible.OneLine(line, maxServiceLine); line != "" {
			last = append(last, line)
		}
	}
	if last = last[max(0, len(last)-serviceLog):]; len(last) > 0 {
		e.Message += "; its log ends with: " + strings.Join(last, " | ")
	}
	return e
}

// silentService is the error about the service of which agentd says that it takes no connections, nil if it says none.
func (s *Session) silentService(ctx context.Context, complaint string) error {
	_, rest, found := strings.Cut(complaint, "agentd: services: ")
	name, rest, _ := strings.Cut(rest, ":")
	if !found {
		return nil
	}
	for _, c := range s.services.list {
		if c.name == name {
			port, _, _ := strings.Cut(rest, " ")
			return s.serviceError(ctx, c, "takes no connections at port "+port)
		}
	}
	return nil
}

// removeServices removes their containers. It may be called more than once.
func (s *Session) removeServices(ctx context.Context) error {
	s.forgetServices()
	s.services.mu.Lock()
	defer s.services.mu.Unlock()
	errs := make([]error, len(s.services.list))
	var all sync.WaitGroup
	for i, c := range s.services.list {
		all.Go(func() { errs[i] = s.cfg.Engine.Remove(ctx, c.handle) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		s.services.list = nil
	}
	return err
}

// forgetServices ends the wait for them, and leaves their containers.
func (s *Session) forgetServices() {
	if s.services.forget != nil {
		s.services.forget()
	}
	s.services.watch.Wait()
}

// takeUpServices finds the services that another process started.
func (s *Session) takeUpServices(ctx context.Context) error {
	list, err := s.cfg.Engine.List(ctx, ownLabels(s.cfg, "service"))
	for _, c := range list {
		s.services.list = append(s.services.list, serviceContainer{c.Labels[LabelService], "its image", c.Handle})
	}
	return err
}
