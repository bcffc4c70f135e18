// Package agentd is the agent server that lives in a container: Open Responses
// over a Unix socket in front of one turn loop with container tools.
//
//	client ─▶ routes ─▶ accept ─▶ queue ─▶ turn ─▶ model, tools
//	   ▲                  │                  │
//	   └── follow ◀── journal ◀── record
//
// A request is checked, recorded and only then acknowledged; its turn runs in a
// goroutine of the server, not of the connection; and what a client reads is
// always the turn's journal, from its beginning. Losing a client, two clients
// on one turn, and coming back later are therefore the same thing.
//
// The package does not authenticate on the Unix socket: its mode does, from which
// the commands of a separate user are shut out.
package agentd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"holon/agentd/activation"
	"holon/agentd/admission"
	"holon/agentd/compaction"
	"holon/agentd/config"
	"holon/agentd/mcp"
	"holon/agentd/model"
	"holon/agentd/privilege"
	"holon/agentd/process"
	"holon/agentd/record"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/agentd/tools/command"
	"holon/agentd/turn"
	"holon/internal/redact"
	"holon/internal/toolchain"
	"holon/responses"
	"holon/responses/turns"
	"holon/responses/websocket"
)

// Models finds the transport for a model reference ("provider/model").
type Models interface {
	// Resolve returns what ref means. "" is the default model, and no fallbacks are those that
	// the server has for it. Errors are *responses.Error values about the field model.
	Resolve(ref string, fallbacks ...string) (model.Choice, error)
	// Models lists the references that are known beforehand, the default first.
	Models() []string
}

// Parts are what a Server is made of. All but MCP and Close are
// required.
type Parts struct {
	Models Models
	Tools  func() (*tools.Registry, error) // the container's
	MCP    *mcp.Manager                    // servers of more tools; nil for none
	Tasks  *tasks.Manager                  // of the commands that outlive their calls
	// Commands starts those of the operator.
	Commands command.Options
	Secrets  *redact.Set // known values to redact; nil for none
	Log      *slog.Logger
	Version  string
	Users    *privilege.Users               // of commands; nil for the user of this process
	Environ  []string                       // the environment of commands, complete
	Now      func() time.Time               // the clock
	EndLeft  func() (process.Strays, error) // ends commands of an earlier process that was killed; nil for none
	Close    func() error                   // releases what the parts hold
}

// quietTime is how long no turn begins or ends until memory is given back to the
// system: most servers wait most of the time, many on one machine. It takes the
// garbage of the last turns, and the room that stacks no longer need.
const quietTime = time.Second

// Server runs turns. Open it, serve it, close it.
type Server struct {
	cfg        config.Config
	parts      Parts
	log        *slog.Logger
	instance   string
	opened     time.Time
	waits      waits
	enabled    []string // names of skills, for /health
	programs   []string // on PATH, for /health
	versions   map[string]string
	store      *record.Store
	sessions   activation.Sessions
	sealer     *compaction.Sealer
	queue      *admission.Queue
	sockets    *websocket.Connections
	outputRoot string             // Dirs.Output without links
	memories   cache[turn.Memory] // by session and model
	catalogs   cache[string]      // revisions, by thread
	metrics    *metrics

	starting    sync.Mutex // held while a task is started, so that an id starts one
	placing     sync.Mutex // held while a turn gets its directory
	logs        *logBytes
	compactions *admission.Queue // apart from turns
	quiet       *time.Timer      // gives memory back; set anew when a turn begins or ends

	describe func() description // the OpenAPI document, made when it is first asked for

	lifetime context.Context // of the server and every turn; outlives requests on purpose
	stop     context.CancelCauseFunc
	running  sync.WaitGroup // turns, from their admission to their commit
	upkeep   sync.WaitGroup // goroutines of the server itself, until Close
	shutdown chan struct{}  // closed by POST /shutdown
	once     sync.Once
	settling sync.Mutex // held by settle

	mu        sync.Mutex
	draining  bool                  // no turn is admitted any more
	live      map[string]*liveTurn  // by turn id
	unsettled map[string]brokenTurn // by response id
	broke     chan struct{}         // wakes keepSettling for one
}

// Open prepares the directories, settles turns that an earlier process left in
// flight, and returns a server that may take requests. cfg must be valid.
func Open(cfg config.Config, parts Parts) (*Server, error) {
	s := &Server{
		cfg: cfg, parts: parts, log: parts.Log, instance: responses.NewID(responses.PrefixInstance),
		sealer:      compaction.NewSealer(cfg.Dirs.State),
		queue:       admission.NewQueue(cfg.Turns.Concurrency, cfg.Turns.QueueLimit),
		compactions: admission.NewQueue(maxCompactions, cfg.Turns.QueueLimit),
		metrics:     newMetrics(),
		sockets:     websocket.New(), shutdown: make(chan struct{}),
		opened: parts.Now(), waits: defaultWaits(), live: make(map[string]*liveTurn),
		unsettled: make(map[string]brokenTurn), broke: make(chan struct{}, 1),
		quiet: time.AfterFunc(quietTime, debug.FreeOSMemory),
	}
	found := programs(toolchain.Programs()...)
	s.programs, s.versions = slices.Sorted(maps.Keys(found)), map[string]string{}
	for name, path := range found {
		if version := toolchain.Version(name, path); version != "" {
			s.versions[name] = version
		}
	}
	if s.parts.MCP == nil {
		s.parts.MCP = mcp.Open(mcp.Options{Log: s.log}) // without servers there is nothing to close
	}
	s.logs = newLogBytes(cfg.Dirs.Output, cfg.Commands.LogBytes, s.log)
	s.lifetime, s.stop = context.WithCancelCause(context.Background())
	s.describe = sync.OnceValue(func() description {
		return describe(parts.Version, cfg.Tools.OutputTokens, cfg.Tools.MaxOutputTokens)
	})
	if err := os.MkdirAll(cfg.Dirs.State, 0o700); err != nil {
		return nil, fmt.Errorf("prepare --state-dir: %w", err)
	}
	if parts.Users == nil { // what is in it may be open to a group, which is the host's where there are two users
		_ = os.Chmod(cfg.Dirs.State, 0o700) // one that is another user's is as that wants it
	}
	err := os.MkdirAll(cfg.Dirs.Output, 0o700)
	if err == nil && parts.Users != nil { // commands go through it to what is theirs, and see nothing on the way
		err = os.Chmod(cfg.Dirs.Output, 0o771)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare --output-dir: %w", err)
	}
	root, err := filepath.EvalSymlinks(cfg.Dirs.Output)
	if err != nil {
		return nil, fmt.Errorf("prepare --output-dir: %w", err)
	}
	s.outputRoot = root
	_ = os.MkdirAll(cfg.Dirs.Workspace, 0o700) // a turn without a working tree works in its output directory
	store, err := record.OpenStore(cfg.Dirs.State)
	if err != nil {
		return nil, fmt.Errorf("prepare --state-dir: %w", err)
	}
	s.store = store
	store.Hide(parts.Secrets, turns.Structure)
	store.Complete(s.untold)
	store.For(parts.Users)
	s.sessions = activation.Sessions{Dir: filepath.Join(cfg.Dirs.State, "skills"), Instance: s.instance}
	parts.Users.Do(func() { s.enabled = cfg.SkillRoots(cfg.StartDir()).Discover().Names() })
	if err := s.recoverTurns(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	retention := record.Retention{MaxAge: cfg.Retention.Age, MaxCount: cfg.Retention.Count,
		MaxBytes: cfg.Retention.Bytes}
	s.upkeep.Go(func() { s.keepSettling(s.lifetime) })
	s.upkeep.Go(func() { store.Maintain(s.lifetime, retention, parts.Now, s.log) })
	return s, nil
}

// recoverTurns settles what an earlier process left in flight: first the commands, which could still change what
// their turns leave, then the private trees, whose patches belong to the records that are completed last.
func (s *Server) recoverTurns() error {
	if s.parts.EndLeft != nil {
		if left, err := s.parts.EndLeft(); err != nil || left != (process.Strays{}) {
			s.log.Warn("commands of an earlier process were left", "ended", left.Ended,
				"survivors", left.Survivors, "err", err)
		}
	}
	if err := s.parts.Tasks.Load(); err != nil {
		return err
	}
	s.recoverTrees()
	open, err := s.store.Open()
	if err != nil {
		return fmt.Errorf("prepare --state-dir: %w", err)
	}
	for _, id := range open {
		s.settleLater(id, brokenTurn{})
	}
	s.settle()
	return nil
}

// enter counts a turn that is about to begin; s.running.Done ends it. From the
// moment in which draining is set, drain and Close wait for all that entered
// and nothing else can.
func (s *Server) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return draining()
	}
	s.running.Add(1)
	return nil
}

func (s *Server) refuseTurns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

// drain refuses new turns and waits for the running ones: for the grace as they
// are, after that ended with ErrShutdown.
func (s *Server) drain() {
	s.refuseTurns()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(s.cfg.Turns.Grace):
	}
	running, queued := s.queue.Load()
	s.log.Warn("ending turns at the end of the grace", "running", running, "queued", queued)
	s.stop(turn.ErrShutdown)
	<-done
}

// Close ends what still runs and releases everything.
func (s *Server) Close() error {
	s.refuseTurns()
	s.stop(turn.ErrShutdown)
	s.running.Wait()
	s.upkeep.Wait()
	s.sockets.Close(closeGrace)
	s.quiet.Stop()
	err := s.store.Close()
	if s.parts.Close != nil {
		err = errors.Join(err, s.parts.Close())
	}
	return err
}

// Shutdown asks Serve to end gracefully and returns at once.
func (s *Server) Shutdown() { s.once.Do(func() { close(s.shutdown) }) }

func draining() *responses.Error {
	return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDraining,
		Message: "the server is shutting down and takes no new turns", Hint: "send the request to a new instance"}
}
