package privilege_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"holon/agentd/privilege"
	"holon/test/expect"
)

// separating is the variable with the directory in which this program separates itself instead of testing.
const separating = "HOLON_TEST_SEPARATE"

var (
	server  = privilege.User{UID: 61001, GID: 61011}
	command = privilege.User{UID: 61002, GID: 61012}
)

func TestMain(m *testing.M) {
	privilege.Launch()
	if dir := os.Getenv(separating); dir != "" {
		if err := json.NewEncoder(os.Stdout).Encode(separate(dir)); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

func TestParseUser(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1": "1:1", "1000:100": "1000:100", "0:0": "0:0"} {
		got, err := privilege.ParseUser(text)
		expect.NoError(t, err)
		expect.Equal(t, text, got.String(), want)
	}
	for _, text := range []string{"", ":", "1:", ":1", "-1", "root", "1:2:3", "4294967295", "1:4294967295", "1 "} {
		if got, err := privilege.ParseUser(text); err == nil {
			t.Errorf("%q is user %v, want an error", text, got)
		}
	}
}

// One user for both changes nothing.
func TestOneUser(t *testing.T) {
	t.Parallel()
	var u *privilege.Users
	ran := false
	u.Do(func() { ran = true })
	expect.Equal(t, "ran", ran, true)
	expect.Equal(t, "mode", u.Shared(0o775), 0o700)
}

// What Start separates, as the separated program and its command see it.
func TestSeparated(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "privilege")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	expect.NoError(t, os.Chmod(dir, 0o755))
	expect.NoError(t, os.MkdirAll(filepath.Join(dir, "state", "old"), 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "state", "old", "f"), []byte("secret"), 0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "outside"), nil, 0o600))
	expect.NoError(t, os.Mkdir(filepath.Join(dir, "sockets"), 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "sockets", "file"), nil, 0o600))
	socket, err := net.Listen("unix", filepath.Join(dir, "sockets", "socket"))
	expect.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	expect.NoError(t, os.Chmod(socket.Addr().String(), 0o600))
	expect.NoError(t, os.Symlink("../outside", filepath.Join(dir, "state", "link")))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), separating+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	expect.NoError(t, err)
	var got map[string]string
	expect.NoError(t, json.Unmarshal(out, &got))
	if os.Geteuid() != 0 {
		if !strings.Contains(got["error"], "SETUID, SETGID, KILL and CHOWN") {
			t.Errorf("an ordinary user separates: %v", got)
		}
		return
	}
	none, some := "0000000000000000", "00000000000000e0"
	for what, want := range map[string]string{
		"error": "", "agentd": "61001:61011",
		"CapInh": none, "CapPrm": some, "CapEff": some, "CapAmb": none,
		"command": "61002:61012:", "command CapInh": none, "command CapPrm": none, "command CapEff": none,
		"command CapAmb":         none,
		"command NoNewPrivs":     "1",
		"command kills agentd":   "EPERM",
		"command reads state":    "EACCES",
		"command reads environ":  "EACCES",
		"agentd ends a command":  "<nil>",
		"old state":              "secret",
		"owner of what Do makes": "61002:61012",
		"Do reads state":         "EACCES",
		"Do panics":              "on purpose",
		"at once":                "20 of 20",
		"private file":           "-rw-rw---- 61001:61011",
		"public directory":       "drwxrwxrwx 61001:61011",
		"target of the link":     "-rw------- 0:0",
		"sockets/.":              "drwxrwx--- 61001:61011",
		"sockets/socket":         "Srw------- 61001:61011",
		"sockets/file":           "-rw------- 0:0",
	} {
		expect.Equal(t, what, got[what], want)
	}
}

// separate separates this program from its commands and reports what it finds.
func separate(dir string) map[string]string {
	got := make(map[string]string)
	state := filepath.Join(dir, "state")
	u, err := privilege.Start(server, command, []string{state}, []string{filepath.Join(dir, "sockets")})
	if err != nil {
		got["error"] = err.Error()
		return got
	}
	syscall.Umask(0o077)
	got["agentd"] = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	status(got, "", "/proc/self/status")
	for _, name := range []string{".", "socket", "file"} {
		got["sockets/"+name] = owner(filepath.Join(dir, "sockets", name))
	}
	data, err := os.ReadFile(filepath.Join(state, "old", "f"))
	got["old state"] = cause(err, string(data))
	got["private file"] = cause(os.WriteFile(filepath.Join(state, "new"), nil, 0o660), owner(filepath.Join(state, "new")))
	got["target of the link"] = owner(filepath.Join(dir, "outside"))
	public := filepath.Join(state, "public")
	got["public directory"] = cause(u.MakePublic(public), owner(public))

	_ = os.Chmod(state, 0o771) // commands go through it
	u.Do(func() {
		_, err := os.ReadFile(filepath.Join(state, "old", "f"))
		got["Do reads state"] = cause(err, "")
		made := filepath.Join(dir, "state", "public", "made")
		got["owner of what Do makes"] = cause(os.WriteFile(made, nil, 0o600), owner(made)[len("-rw------- "):])
	})
	func() {
		defer func() { got["Do panics"] = fmt.Sprint(recover()) }()
		u.Do(func() { panic("on purpose") })
	}()
	var group sync.WaitGroup
	refused := make(chan bool, 20)
	for range cap(refused) {
		group.Go(func() {
			u.Do(func() { refused <- errors.Is(os.WriteFile(filepath.Join(state, "x"), nil, 0o600), fs.ErrPermission) })
		})
	}
	group.Wait()
	n := 0
	for range cap(refused) {
		if <-refused {
			n++
		}
	}
	got["at once"] = fmt.Sprintf("%d of %d", n, cap(refused))
	commands(got, u, state)
	return got
}

// commands reports what a command can do, and what can be done to it.
func commands(got map[string]string, u *privilege.Users, state string) {
	sys := new(syscall.SysProcAttr)
	program, args := u.Command("/bin/sh", "/", []string{"sh", "-c", `cat /proc/self/status
printf 'ids %s:%s:%s\n' $(id -u) $(id -g) "$(id -G | cut -d' ' -f2- -s)"
kill -9 $PPID 2>/dev/null && echo kill OK || echo kill EPERM
cat "$0/old/f" 2>/dev/null && echo state OK || echo state EACCES
cat /proc/$PPID/environ >/dev/null 2>&1 && echo environ OK || echo environ EACCES
exec sleep 600`, state}, sys)
	run := &exec.Cmd{Path: program, Args: args, Stderr: os.Stderr, SysProcAttr: sys}
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		got["error"] = err.Error()
		return
	}
	buffer, text := make([]byte, 1<<16), ""
	for !strings.Contains(text, "\nenviron ") {
		n, err := out.Read(buffer)
		if err != nil {
			break
		}
		text += string(buffer[:n])
	}
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "ids":
			got["command"] = value
		case "kill":
			got["command kills agentd"] = value
		case "state":
			got["command reads state"] = value
		case "environ":
			got["command reads environ"] = value
		}
	}
	capabilities(got, "command ", text)
	got["agentd ends a command"] = fmt.Sprint(run.Process.Kill())
	_ = run.Wait()
}

func status(got map[string]string, prefix, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		got["error"] = err.Error()
	}
	capabilities(got, prefix, string(data))
}

func capabilities(got map[string]string, prefix, text string) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "Cap") || name == "NoNewPrivs" {
			got[prefix+name] = strings.TrimSpace(value)
		}
	}
}

// cause is why something failed, or what it gave.
func cause(err error, otherwise string) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "EACCES"
	case err != nil:
		return err.Error()
	}
	return otherwise
}

func owner(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
}
