// Package postgrestest runs a private PostgreSQL server for tests: in a directory of its own, on a Unix socket alone.
//
// PostgreSQL does not run as root, so root runs it as the user postgres, or nobody.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a server, which its test may stop and start again.
type Server struct {
	programs, dir string
	settings      []string
	as            *syscall.Credential // nil: this process's
	running       *exec.Cmd           // nil while it is stopped
	databases     atomic.Int32
	small         string // where a file system is mounted; "": none is
}

// startWithin bounds the start of a server.
const startWithin = time.Minute

// New makes and starts a server that ends with the test, and that a loss of power may harm. Settings are name=value.
// The test is skipped where PostgreSQL is not installed.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	if !Installed() {
		t.Skip("PostgreSQL is not installed (Debian: postgresql)")
	}
	s, err := Make(append(settings, "fsync=off")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Installed reports whether there is PostgreSQL.
func Installed() bool { return programs() != "" }

// Make makes and starts a server with settings, name=value, which Close removes.
func Make(settings ...string) (s *Server, err error) {
	s = &Server{programs: programs(), settings: settings}
	if s.dir, err = os.MkdirTemp("", "pg"); err != nil { // short, for the socket's sake
		return nil, err
	}
	if err = s.beOrdinary(); err == nil {
		// A locale that does not order strings by their bytes.
		var out []byte
		if out, err = s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "holon", "--no-sync", "-E", "UTF8",
			"--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US").CombinedOutput(); err != nil {
			err = fmt.Errorf("initdb: %w\n%s", err, out)
		}
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Standby makes and starts a server that follows this one, and ends with the test.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	other := &Server{programs: s.programs, settings: s.settings, dir: dir}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := other.beOrdinary(); err != nil {
		t.Fatal(err)
	}
	if out, err := other.command("pg_basebackup", "-D", other.data(), "-R", "-h", s.dir, "-U", "holon", "--no-sync", "-c",
		"fast").CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	other.Start(t)
	return other
}

// Promote makes a standby a server that takes writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if err := s.exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
}

// Small makes a database on a file system of a size, and returns its URL and the directory of the file system. The test
// is skipped where it may not mount one.
func (s *Server) Small(t testing.TB, bytes int) (url, dir string) {
	t.Helper()
	if s.as == nil {
		t.Skip("mounting a file system needs root")
	}
	dir = filepath.Join(s.dir, "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("size=%d,uid=%d,gid=%d,mode=0700", bytes, s.as.Uid, s.as.Gid)
	if err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).Run(); err != nil {
		t.Skip("no file system can be mounted: ", err)
	}
	s.small = dir
	if err := s.exec(t.Context(), "CREATE TABLESPACE small LOCATION '"+dir+"'"); err != nil {
		t.Fatal(err)
	}
	return s.Copy(t, "template1 TABLESPACE small"), dir
}

// Close ends a server, also one that hangs, and removes it.
func (s *Server) Close() (err error) {
	if s.running != nil {
		err = errors.Join(s.signal(syscall.SIGCONT), s.stop(syscall.SIGQUIT))
	}
	if s.small != "" {
		err = errors.Join(err, syscall.Unmount(s.small, 0))
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// programs is the directory of the newest server's programs, "" when there is none.
func programs() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // where all of them are
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

// beOrdinary makes another user of root.
func (s *Server) beOrdinary() error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, uid, gid)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// Start starts a server that was stopped, and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) start() error {
	args := []string{"-D", s.data(), "-k", s.dir}
	for _, setting := range append([]string{"listen_addresses=", "max_connections=200"}, s.settings...) {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running = cmd
	ctx, cancel := context.WithTimeout(context.Background(), startWithin) // also in the clean-up of a test
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.exec(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, text)
		}
	}
}

// Stop ends the server: SIGINT ends its sessions in order, SIGQUIT is a crash.
func (s *Server) Stop(t testing.TB, how syscall.Signal) {
	t.Helper()
	if err := s.stop(how); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) stop(how syscall.Signal) error {
	if err := s.running.Process.Signal(how); err != nil {
		return err
	}
	_ = s.running.Wait() // a crash is an error
	s.running = nil
	return nil
}

// Hang stops all processes of the server where they are, as a machine does that is out of memory, until Resume.
func (s *Server) Hang(t testing.TB) {
	t.Helper()
	if err := s.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// Resume lets a server go on that hangs.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// signal sends a signal to the server and to its children, each of which has a process group of its own.
func (s *Server) signal(sig syscall.Signal) error {
	parent := s.running.Process.Pid
	if err := syscall.Kill(parent, sig); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", parent))
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(id); err == nil {
			_ = syscall.Kill(pid, sig) // it may have ended
		}
	}
	return nil
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.Copy(t, "template1")
}

// Copy makes a database that has what another one has, and returns its URL.
func (s *Server) Copy(t testing.TB, of string) string {
	t.Helper()
	url, err := s.Create(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// Create makes a database that has what another one has, and returns its URL.
func (s *Server) Create(ctx context.Context, of string) (string, error) {
	name := fmt.Sprint("d", s.databases.Add(1))
	return s.url(name), s.exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+of)
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

func (s *Server) url(database string) string {
	return "postgres://holon@/" + database + "?host=" + s.dir
}

func (s *Server) exec(ctx context.Context, text string) error {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, text)
	return err
}
