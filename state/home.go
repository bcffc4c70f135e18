// Package state holds the nouns of what the host keeps: where it lies (Home),
// how a run is called (RunID) and what became of it (Manifest). Stores that
// keep them are in packages beneath.
//
// The invariant: a stored Manifest tells an end. That a run is going on is
// never written down; it is a lease that dies with its holder, so nothing can
// be stuck as running after a crash.
//
// It does no locking and promises nothing about two processes at once; that is
// the stores' part.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Home is the directory in which the host keeps everything: HOLON_HOME, or
// .holon in the user's home directory.
//
//	runs/<run_id>/   one run: lease, record and results (state/files); its parts lie in it
//	skills/          installed skills and their pins
//	cache/           what can be made again
//	ipc/<run_id>/    sockets shared with the run's container
//	ledger.sqlite    what is known of the agents (state/sqlite)
//	spending.json    what models took, of this day and in all (runner/gateway)
//	owner            by which its containers are known to engines that other homes use
//	trigger.key      what the URLs of external triggers are derived from
//	run/             socket, log and metadata of the daemon (runner/daemon)
//	consents/        what a person agreed to of projects' files, by digest (runner/settings)
//	worktrees/       working trees that `holon checkout` made
//	sessions/<id>/   one session of a client (runner/conversation)
//	agents/<id>/     the home of one agent, which its container sees but for .holon
//	agents/<id>/.holon/children/<child>/   the home of one of its private children, alike
//	sessions/<id>/   one conversation of a client
//
// The zero Home is not usable.
type Home struct{ dir string }

// FindHome returns the home that HOLON_HOME (may be empty) and the user's home
// directory name. It writes nothing: a home that does not exist yet is fine
// for reading, it holds nothing. Errors are *Error with CodeHomeUnusable.
func FindHome(holonHome, userHome string) (Home, error) {
	dir, err := homeDir(holonHome, userHome)
	if err != nil {
		return Home{}, err
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Home{dir}, nil
	}
	if err != nil {
		return Home{}, unusable("give a directory that can be read", dir, err)
	}
	if !info.IsDir() {
		return Home{}, unusable("name a directory", dir, errors.New("it is not a directory"))
	}
	// Engines don't mount what lies behind a symbolic link.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return Home{}, unusable("give a directory that can be read", dir, err)
	}
	return Home{dir}, nil
}

// MakeHome is FindHome for writers: it makes the directories that are
// missing, with mode 0700, and checks that files can be made.
func MakeHome(holonHome, userHome string) (Home, error) {
	dir, err := homeDir(holonHome, userHome)
	if err != nil {
		return Home{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Home{}, unusable("give a directory that can be written to", dir, err)
	}
	h, err := FindHome(dir, userHome)
	if err != nil {
		return Home{}, err
	}
	for _, sub := range []string{h.RunsDir(), h.CacheDir(), h.ContainersDir(), h.ipcDir()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return Home{}, unusable("give a directory that can be written to", dir, err)
		}
	}
	// The kernel knows of read-only file systems too. A file that is made and removed would stay after a kill in
	// between.
	if err := unix.Access(h.RunsDir(), unix.W_OK|unix.X_OK); err != nil {
		return Home{}, unusable("give a directory that can be written to", dir, fmt.Errorf("write to it: %w", err))
	}
	return h, nil
}

func homeDir(holonHome, userHome string) (string, error) {
	dir := holonHome
	if dir == "" {
		if userHome == "" {
			return "", &Error{Code: CodeHomeUnusable, Param: "HOLON_HOME",
				Message: "there is no home directory to keep runs in", Hint: "set HOLON_HOME to an absolute path"}
		}
		dir = filepath.Join(userHome, ".holon")
	}
	if !filepath.IsAbs(dir) {
		return "", &Error{Code: CodeHomeUnusable, Param: "HOLON_HOME",
			Message: fmt.Sprintf("the state home %.200q is not an absolute path", dir),
			Hint:    "set HOLON_HOME to an absolute path"}
	}
	return filepath.Clean(dir), nil
}

func unusable(hint, dir string, err error) *Error {
	return &Error{Code: CodeHomeUnusable, Param: "HOLON_HOME",
		Message: fmt.Sprintf("the state home %.200q can't be used", dir), Hint: hint, Err: err}
}

// Dir returns the home's absolute path, with symbolic links resolved where it
// exists.
func (h Home) Dir() string { return h.dir }

// RunsDir is the directory that holds the directories of runs.
func (h Home) RunsDir() string { return filepath.Join(h.dir, "runs") }

// ContainersDir is the register of the containers that belong to the home.
func (h Home) ContainersDir() string { return filepath.Join(h.dir, "containers") }

// SkillsDir holds the skills that were installed.
func (h Home) SkillsDir() string { return filepath.Join(h.dir, "skills") }

// CacheDir holds what can be made again, working trees for one.
func (h Home) CacheDir() string { return filepath.Join(h.dir, "cache") }

// WorktreesDir holds the working trees of runs that were checked out. They are
// registered in the user's repositories and hold the user's work: never a cache.
func (h Home) WorktreesDir() string { return filepath.Join(h.dir, "worktrees") }

// AgentsDir is the directory that holds the homes of agents.
func (h Home) AgentsDir() string { return filepath.Join(h.dir, "agents") }

// AgentDir is the home of one agent: that of a child is within what is the host's own of its public agent. The id must
// have passed CheckAgentID.
func (h Home) AgentDir(id string) string {
	if IsChild(id) {
		return filepath.Join(h.childrenDir(RootAgent(id)), id)
	}
	return filepath.Join(h.AgentsDir(), id)
}

// AgentPrivateDir is what of an agent's home is the host's own: its container
// sees an empty directory there. The id must have passed CheckAgentID.
func (h Home) AgentPrivateDir(id string) string { return filepath.Join(h.AgentDir(id), ".holon") }

// SessionsDir is the directory that holds the directories of conversations of clients.
func (h Home) SessionsDir() string { return filepath.Join(h.dir, "sessions") }

// SessionDir is the directory of one conversation, all of it the host's own but for what its container writes. The id
// must have passed CheckConversationID.
func (h Home) SessionDir(id string) string { return filepath.Join(h.SessionsDir(), id) }

// TriggerKeyPath is the file with the key from which the tokens of external triggers are derived.
func (h Home) TriggerKeyPath() string { return filepath.Join(h.dir, "trigger.key") }

// SpendingPath is the file of what models took in all.
func (h Home) SpendingPath() string { return filepath.Join(h.dir, "spending.json") }

// LedgerPath is the file with the ledger of the agents (state/sqlite).
func (h Home) LedgerPath() string { return filepath.Join(h.dir, "ledger.sqlite") }

// OwnerPath is the file with Owner.
func (h Home) OwnerPath() string { return filepath.Join(h.dir, "owner") }

// IPCDir is where the sockets of one run, or of one container of an agent or of a conversation, lie. It
// is not within the run's directory, to keep their paths short: they
// may have 107 bytes. The id must have passed CheckRunID or be one of NewIPCID.
func (h Home) IPCDir(id string) string { return filepath.Join(h.ipcDir(), id) }

func (h Home) ipcDir() string { return filepath.Join(h.dir, "ipc") }
