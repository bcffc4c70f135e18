// Package buckettest runs a private server of buckets for tests: versitygw, built from a module of its own, with files
// in a directory, on a loopback port.
package buckettest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Of the server: its only account.
const (
	ID     = "tester"
	Secret = "secret-of-the-tester"
)

// Server is a server with the bucket "holon", which its test may stop and start again.
type Server struct {
	dir, program, address string
	running               *exec.Cmd // nil while it is stopped
}

// New builds and starts a server that ends with the test. The build takes minutes the first time.
func New(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "s3")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{dir: dir, program: build(t)}
	t.Cleanup(func() {
		s.Stop(t)
		_ = os.RemoveAll(dir)
	})
	if err := os.MkdirAll(s.Bucket(), 0o700); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s.Start(t)
	return s
}

// build makes the program, once for all tests: it is kept next to what the go command caches.
func build(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "holon-test", "versitygw")
	_, file, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(file) { // with -trimpath
		out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "holon/test/buckettest").Output()
		if err != nil {
			t.Fatal(err)
		}
		file = filepath.Join(string(out[:len(out)-1]), "buckettest.go")
	}
	cmd := exec.Command("go", "build", "-o", program, "github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = filepath.Join(filepath.Dir(file), "server")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the server of buckets: %v\n%s", err, out)
	}
	return program
}

// Bucket is the directory with the objects.
func (s *Server) Bucket() string { return filepath.Join(s.dir, "data", "holon") }

// Address is HOST:PORT of the server.
func (s *Server) Address() string { return s.address }

// URL is that of the bucket, for --store.
func (s *Server) URL() string {
	return "s3://holon/files?endpoint=http://" + s.address + "&region=us-east-1"
}

// Env has the credentials.
func (s *Server) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + ID, "AWS_SECRET_ACCESS_KEY=" + Secret}
}

// Start starts a server that was stopped, and waits until it accepts connections.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(s.program, "--access", ID, "--secret", Secret, "--port", s.address, "--region", "us-east-1",
		"--quiet", "posix", filepath.Join(s.dir, "data"))
	cmd.Dir, cmd.Env = s.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.running = cmd
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also in the clean-up of a test
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = conn.Close() // nothing was written
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the server of buckets does not answer: %v\n%s", err, text)
		}
	}
}

// Stop ends the server at once. One that is stopped is success.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.running == nil {
		return
	}
	if err := s.running.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = s.running.Wait() // it was killed
	s.running = nil
}
