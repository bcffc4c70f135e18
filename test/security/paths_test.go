package security

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"holon/responses/turns"
	"holon/runner/oneshot"
	"holon/test/expect"
)

const sentinel = "sentinel-5d1e7c22"

// bait is a directory of the host with something to find. A link in a container
// that names it leads nowhere there; for a host that follows it, it does.
func (l *lab) bait() string {
	l.t.Helper()
	dir := filepath.Join(filepath.Dir(l.home), "bait")
	expect.NoError(l.t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"file", "turn.json", "events.ndjson", "passwd"} {
		expect.NoError(l.t, os.WriteFile(filepath.Join(dir, name), []byte(sentinel+"\n"), 0o644))
	}
	return dir
}

// unbitten fails the test if what a run left holds the bait, or the bait changed.
func (l *lab) unbitten(r result) {
	l.t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			if !d.IsDir() {
				l.t.Errorf("%s is a %v", path, d.Type())
			}
			return nil
		}
		// Only the attack's own text, in the record of what the model asked for,
		// may name the bait; its content stands nowhere.
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), sentinel) {
			l.t.Errorf("%s holds what lies on the host", path)
		}
		return err
	})
	if err != nil {
		l.t.Error(err)
	}
	dir := l.bait() + "/"
	for _, e := range must(os.ReadDir(dir))(l.t) {
		if data := must(os.ReadFile(dir + e.Name()))(l.t); string(data) != sentinel+"\n" {
			l.t.Errorf("%s was changed: %q", e.Name(), data)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		expect.NoError(t, err)
		return v
	}
}

// What takes the place of the turn's directory, of the files in it or of an
// ancestor is never followed, waited for or copied.
func TestOutputReplaced(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]string{
		"directory by link": `cd $HOLON_OUTPUT_DIR/..; rm -rf $HOLON_TURN_ID; ln -s BAIT $HOLON_TURN_ID`,
		"ancestor by link":  `cd /holon/output; mv turns moved; ln -s BAIT turns`,
		"directory by pipe": `cd $HOLON_OUTPUT_DIR/..; rm -rf $HOLON_TURN_ID; mkfifo $HOLON_TURN_ID`,
		"directory by file": `cd $HOLON_OUTPUT_DIR/..; rm -rf $HOLON_TURN_ID; echo x > $HOLON_TURN_ID`,
		"directory closed":  `chmod 000 $HOLON_OUTPUT_DIR`,
		"everything closed": `chmod 000 /holon/output`,
		"record by link": `cd $HOLON_OUTPUT_DIR; rm -f turn.json events.ndjson; ln -s BAIT/turn.json ` +
			`turn.json; ln -s BAIT/events.ndjson events.ndjson`,
		"record by pipe": `cd $HOLON_OUTPUT_DIR; rm -f turn.json events.ndjson; mkfifo turn.json events.ndjson`,
		"record by socket": `cd $HOLON_OUTPUT_DIR; rm -f turn.json; python3 -c 'import socket; ` +
			`socket.socket(socket.AF_UNIX).bind("turn.json")'`,
		"logs by link": `cd $HOLON_OUTPUT_DIR; rm -rf tools; ln -s BAIT tools`,
		"links within": `cd $HOLON_OUTPUT_DIR; ln -s BAIT/file link; ln -s BAIT dir; mkdir d; ` +
			`ln -s ../../../../../../../../BAIT/file d/up; ln -s /proc/self/root root`,
		"state by link":      `rm -rf /holon/state/*; ln -s BAIT /holon/state/responses`,
		"tree by link":       `rm -rf ./* ; ln -s BAIT sub; ln -s BAIT/file a`,
		"repository by link": `rm -rf .git; ln -s BAIT .git`,
		"repository with hooks": `mkdir -p .git/hooks; printf '#!/bin/sh\ntouch BAIT/ran\n' > ` +
			`.git/hooks/post-index-change; chmod +x .git/hooks/*; git config core.fsmonitor 'touch BAIT/ran'; ` +
			`git config core.sshCommand 'touch BAIT/ran'; printf '* filter=x\n' > .gitattributes; ` +
			`git config filter.x.clean 'touch BAIT/ran'`,
		"tree closed": `mkdir -p d/e; echo x > d/e/f; chmod 000 d/e/f d/e d .`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			r := l.attack(nil, strings.ReplaceAll(attack, "BAIT", l.bait()))
			l.unbitten(r)
			if r.Turn == nil && r.Error == nil {
				t.Errorf("neither a turn nor an error: %+v", r.Manifest)
			}
			again := l.attack(nil, "cat a; ls").completed(t)
			if len(again.said) != 1 || again.said[0] != "a\na\n" {
				t.Errorf("the next run's tree: %q", again.said)
			}
		})
	}
}

// Hard links can't be made to what lies on another mount or belongs to others.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	got := newLab(t).attack(nil, `
try() { if out=$(ln "$2" "$3" 2>&1); then echo "$1	OK"; else echo "$1	$out"; fi; }
try passwd /etc/passwd ./p; try agentd /holon/bin/agentd ./g; try input /holon/input/probe $HOLON_OUTPUT_DIR/i; `+
		`try objects "$(find /holon/objects -type f | head -n 1)" ./o
try image /bin/su ./s; try across a $HOLON_OUTPUT_DIR/a`).completed(t).outcomes(t)
	if len(got) != 6 {
		t.Errorf("%d attempts: %v", len(got), got)
	}
	for name, outcome := range got {
		if !strings.Contains(outcome, "Invalid cross-device link") &&
			!strings.Contains(outcome, "Operation not permitted") {
			t.Errorf("%s: %s", name, outcome)
		}
	}
}

// A directory that turns into a link and back, thousands of times a second until
// the container ends, is collected as one or the other, never through.
func TestSwapRace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	bait := l.bait()
	r := l.attack(nil, "timeout 2 /holon/input/probe swap $HOLON_OUTPUT_DIR/d "+bait+
		" & timeout 2 /holon/input/probe swap ./d "+bait+" & wait; cat d/file d.link/file")
	l.unbitten(r.completed(t))
}

// Names that do harm to who prints them are data: in no line that a person reads
// is a control character left.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.attack(nil, "/holon/input/probe names . && mkdir $HOLON_OUTPUT_DIR/n && /holon/input/probe names "+
		"$HOLON_OUTPUT_DIR/n").completed(t)
	if got := r.outcomes(t); got["names"] != "OK" {
		t.Fatalf("%v", got)
	}
	summary := string(must(os.ReadFile(filepath.Join(r.dir, "summary.md")))(t))
	for text, what := range map[string]string{strings.Join(r.Warnings, "\n"): "a warning", summary: "the summary"} {
		for _, c := range text {
			if unicode.IsControl(c) && c != '\n' {
				t.Errorf("%s has %q: %q", what, c, text)
				break
			}
		}
	}
	entries := must(os.ReadDir(filepath.Join(r.dir, turns.ArtifactsDir, "n")))(t)
	if len(entries) < 14 {
		t.Errorf("%d of the files were collected", len(entries))
	}
	l.unbitten(r)
}

// Nesting beyond what a path can name stops neither collecting nor removing.
// 2200 levels of two bytes exceed the longest path of the kernel.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.attack(nil, "mkdir deep $HOLON_OUTPUT_DIR/deep; /holon/input/probe deep $PWD/deep 2200; "+
		"/holon/input/probe deep $HOLON_OUTPUT_DIR/deep 2200").completed(t)
	if got := r.outcomes(t); got["deep"] != "OK" {
		t.Fatalf("%v", got)
	}
	warned(t, r, "too deep")
	again := l.attack(nil, "ls").completed(t)
	if len(again.said) != 1 || again.said[0] != "a\n" {
		t.Errorf("the next run's tree: %q", again.said)
	}
}

// When the container replaces its socket by a link, the host does not speak to the
// listener at the end of the link.
func TestSocketReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := filepath.Join(filepath.Dir(l.home), "decoy")
	decoy := must(net.Listen("unix", path))(t)
	expect.NoError(t, os.Chmod(path, 0o666))
	var reached atomic.Int64
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := decoy.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			conn.Close()
		}
	}()
	r := l.attack(func(o *oneshot.Run) { o.Turn.Limits().MaxRounds = 5 },
		"cd /holon/ipc; rm -f agent.sock; ln -s "+path+" agent.sock; ! ln -s "+path+" /holon/host/x.sock", "sleep 1",
		"sleep 1")
	expect.NoError(t, decoy.Close())
	<-served
	if n := reached.Load(); n != 0 {
		t.Errorf("the host connected %d times to where the link leads", n)
	}
	l.unbitten(r)
}
