package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"holon/internal/pattern"
)

// Spec says what to run. The zero value of every optional field is the strict
// default of defaults.go.
type Spec struct {
	Name   string            // required: letters, digits, "_.-", 2 to 128 characters, unique in the engine
	Image  string            // required by docker, ignored by local
	Labels map[string]string // for List

	Args []string // required: the program and its arguments; the image's own entry point and command are not used
	Env  []string // KEY=value; the image's variables stay below these
	User *User    // nil: the user and group of this process
	// Server is the user that the program becomes to separate itself from its commands, which are User. It starts as
	// root with the capabilities SETUID, SETGID, KILL and CHOWN and is told both in its environment, see EnvServer.
	// nil: the program starts as User.
	Server *User
	Mounts []Mount

	Memory   int64 // bytes, swap included; 0: DefaultMemory, Unlimited: no limit
	NanoCPUs int64 // billionths of a CPU; 0: DefaultNanoCPUs, or all CPUs of a smaller machine

	Runtime string // name of what runs containers in the engine, such as "runsc"; "": the engine's default
	// "": NetworkNone; anything else is looser: a network's name, "bridge", "host", "container:<id>"
	Network string

	Sockets Sockets

	// Late says that files with holes come by the link, once the program runs: engines fill holes with zeros.
	Late    bool
	Hosts   []string // names of the loopback interface, in addition to localhost
	Portion Portion  // of the limits, those that are left out included; zero: all
	Service *Service // nil: the container runs Args
}

// Service says that a container runs what its image is made to run, as the user that the image names; Args, User,
// Server and Mounts are left out. Where that user is root it has the capabilities with which entry points prepare files
// and become another user, and no others. The volumes that the image declares, and Dirs, are file systems in memory.
type Service struct {
	Dirs []string // absolute
}

// Portion is how many Parts of a whole a container gets of the limits.
type Portion struct{ Parts, Of int64 }

// Take returns the portion of a limit; Unlimited stays so.
func (p Portion) Take(limit int64) int64 {
	if p.Of == 0 || limit <= 0 {
		return limit
	}
	return max(1, limit*p.Parts/p.Of)
}

// User is a numeric user and group; names are not looked up in the image.
type User struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Users are the ids of the users of the program.
func (s Spec) Users() (ids []int) {
	for _, u := range []*User{s.User, s.Server} {
		if u != nil {
			ids = append(ids, u.UID)
		}
	}
	return ids
}

// Mount shows the directory, file or socket Source of the host at Target. A
// read-only mount does not show file systems mounted beneath Source, because
// older engines would leave those writable.
type Mount struct {
	// absolute, UTF-8 without control characters, must exist, not a symbolic link, no device
	Source   string `json:"source"`
	Target   string `json:"target"` // absolute
	ReadOnly bool   `json:"read_only"`
	// Updated says of a read-only mount that the host changes it while the program runs. Where the program has a copy,
	// the user who owns that could write it too; the host does not read it.
	Updated bool `json:"updated,omitempty"`
}

// IsDirectory reports whether the source, which Complete has checked, is a directory.
func (m Mount) IsDirectory() bool {
	info, err := os.Stat(m.Source)
	return err == nil && info.IsDir()
}

const (
	maxEnv        = 1024
	maxStringSize = 128 << 10 // the kernel's own limit for one variable
	maxMounts     = 256
)

var (
	wordPattern = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9_./-]*$`)
	envPattern  = pattern.Lazy(`^[^=\x00]+=[^\x00]*$`)
)

// validWord reports whether s may name something of the engine.
func validWord(s string) bool { return len(s) <= 128 && wordPattern().MatchString(s) }

// ValidName reports whether name may be the name of a Spec. It is safe as one
// element of a path.
func ValidName(name string) bool {
	return len(name) > 1 && validWord(name) && !strings.Contains(name, "/")
}

// Complete checks spec and returns a copy in which every default is filled in.
// Its errors are *Error with CodeInvalidSpec (CodeResourceLimit for limits
// that cannot work) and Param naming the field. Engines call it in Create.
func (s Spec) Complete() (Spec, error) {
	s = s.withDefaults()
	if s.Service != nil {
		s.Args, s.User = nil, nil
	}
	for _, check := range []func() error{
		s.checkProgram, s.checkService, s.checkUsers, s.checkLimits, s.checkNetwork, s.checkMounts,
	} {
		if err := check(); err != nil {
			return Spec{}, err
		}
	}
	return s, nil
}

func (s Spec) checkProgram() error {
	if !ValidName(s.Name) {
		return invalid("name", "use 2 to 128 letters, digits, '_', '.' or '-'", "invalid name %q", s.Name)
	}
	if s.Service == nil && (len(s.Args) == 0 || s.Args[0] == "") {
		return invalid("args", "give the program to run", "no program to run")
	}
	if len(s.Env) > maxEnv {
		return invalid("env", "pass fewer variables", "%d variables, at most %d are allowed", len(s.Env), maxEnv)
	}
	for _, pair := range s.Env {
		// The value may be a secret: only the name is shown.
		if name, _, _ := strings.Cut(pair, "="); len(pair) > maxStringSize || !envPattern().MatchString(pair) {
			return invalid("env", "write KEY=value", "invalid environment variable %.40q", name)
		}
	}
	return nil
}

func (s Spec) checkService() error {
	if s.Portion.Parts < 0 || s.Portion.Parts > s.Portion.Of {
		return invalid("memory", "", "%d parts of %d", s.Portion.Parts, s.Portion.Of)
	}
	if s.Service == nil {
		return nil
	}
	if s.Server != nil || len(s.Mounts) > 0 {
		return invalid("service", "leave them out", "a service has a user, or mounts, that its image does not name")
	}
	seen := map[string]bool{}
	for _, dir := range s.Service.Dirs {
		if err := checkTarget(dir, seen); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) checkUsers() error {
	if s.User == nil { // the image's
		return nil
	}
	if s.User.UID < 0 || s.User.GID < 0 {
		return invalid("user", "give numbers from 0", "invalid user %d:%d", s.User.UID, s.User.GID)
	}
	if v := s.Server; v != nil && (v.UID <= 0 || v.GID < 0 || v.UID == s.User.UID || v.GID == s.User.GID ||
		s.User.UID == 0) {
		return invalid("server", "give numbers of its own, other than root's", "the server %d:%d is not apart from %d:%d",
			v.UID, v.GID, s.User.UID, s.User.GID)
	}
	return nil
}

// Variables that tell a program which two users it has to be, as UID:GID.
const (
	EnvServer  = "HOLON_SERVER_USER"
	EnvCommand = "HOLON_COMMAND_USER"
)

func (u User) String() string { return fmt.Sprintf("%d:%d", u.UID, u.GID) }

func (s Spec) checkLimits() error {
	if s.Memory != Unlimited && s.Memory < MinMemory {
		return &Error{Code: CodeResourceLimit, Param: "memory",
			Message: fmt.Sprintf("memory limit of %d bytes is below the minimum of %d", s.Memory, MinMemory),
			Hint:    "use --memory 64m or more"}
	}
	if s.NanoCPUs < 0 || s.NanoCPUs > 0 && s.NanoCPUs < MinNanoCPUs {
		return &Error{Code: CodeResourceLimit, Param: "cpus",
			Message: fmt.Sprintf("cpu limit of %g is below the minimum of 0.01", float64(s.NanoCPUs)/1e9),
			Hint:    "use --cpus 0.01 or more, or leave it out for the default"}
	}
	return nil
}

func (s Spec) checkNetwork() error {
	if name := strings.TrimPrefix(s.Network, "container:"); !validWord(name) || strings.Contains(name, "/") {
		return invalid("network", "use none, bridge or the name of a network", "invalid network %q", s.Network)
	}
	if s.Runtime != "" && !validWord(s.Runtime) {
		return invalid("runtime", "name a runtime of the engine, such as runc", "invalid runtime %.80q", s.Runtime)
	}
	return nil
}

func (s Spec) checkMounts() error {
	if len(s.Mounts) > maxMounts {
		return invalid("mounts", "mount a common parent directory", "%d mounts, at most %d are allowed", len(s.Mounts),
			maxMounts)
	}
	targets := map[string]bool{}
	for _, m := range s.Mounts {
		if err := checkTarget(m.Target, targets); err != nil {
			return err
		}
		if err := checkSource(m.Source); err != nil {
			return err
		}
	}
	return nil
}

// checkTarget refuses what would cover the system directories that confine
// the program, and two mounts at one place.
func checkTarget(target string, seen map[string]bool) error {
	if err := checkAbsolute(target); err != nil {
		return err
	}
	for _, system := range []string{"/proc", "/sys", "/dev"} {
		if target == "/" || target == system || strings.HasPrefix(target, system+"/") {
			return invalid("mounts", "mount below a directory of its own, such as /holon", "cannot mount over %s",
				target)
		}
	}
	if seen[target] {
		return invalid("mounts", "give every mount its own target", "two mounts at %s", target)
	}
	seen[target] = true
	return nil
}

func checkSource(source string) error {
	if err := checkAbsolute(source); err != nil {
		return err
	}
	info, err := os.Lstat(source)
	if err != nil {
		e := invalid("mounts", "create it before the container", "mount source is not usable")
		e.Err = err
		return e
	}
	switch info.Mode().Type() {
	case fs.ModeDir, 0, fs.ModeSocket:
		return nil
	case fs.ModeSymlink:
		return invalid("mounts", "pass the path it points to", "mount source %s is a symbolic link", source)
	}
	return invalid("mounts", "mount directories, regular files or sockets", "mount source %s is a device or pipe",
		source)
}

// checkAbsolute checks a path of the host or the container. The engine gets it
// as JSON, where a path that is not UTF-8 would become another: one that a hostile
// repository can make a link at.
func checkAbsolute(p string) error {
	if !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) {
		return invalid("mounts", "rename it", "the path %.4096q has characters that are not UTF-8, or control characters",
			p)
	}
	if !path.IsAbs(p) || path.Clean(p) != p {
		return invalid("mounts", "use an absolute path without '..', '//' or a trailing '/'", "invalid path %.200q", p)
	}
	return nil
}

// HostPath translates target to the path on the host that mounts show there:
// the mount with the longest matching target decides. Without one, ok is
// false. It compares names only and touches no file.
func HostPath(mounts []Mount, target string) (hostPath string, ok bool) {
	target = path.Clean("/" + target) // ".." must not lead out of a source
	best := -1
	for i, m := range mounts {
		within := target == m.Target || strings.HasPrefix(target, strings.TrimSuffix(m.Target, "/")+"/")
		if within && (best < 0 || len(m.Target) > len(mounts[best].Target)) {
			best = i
		}
	}
	if best < 0 {
		return "", false
	}
	return filepath.Join(mounts[best].Source, strings.TrimPrefix(target, mounts[best].Target)), true
}
