package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/test/expect"
)

// mostMemory is the memory that a run may take of the host beyond one that does nothing.
const mostMemory = 64 << 20

// A hostile container or provider fills what is read of a turn, and holon stays small.
// An agentd in a container could do the same as the commands here: TURN is the
// turn's directory, and end kills agentd, so that the host has to settle the turn.
func TestMemory(t *testing.T) {
	t.Parallel()
	const end = "; kill -9 $PPID; sleep 60"
	flood := httptest.NewServer(http.HandlerFunc(floodOfText))
	t.Cleanup(flood.Close)
	lines := "1500000"
	if testing.Short() {
		lines = "500000"
	}
	idle := runForMemory(t, "exit 0", flood.URL)
	if idle.hwm == 0 || idle.outcome != "success" {
		t.Fatalf("an idle run: %+v", idle)
	}
	for name, tc := range map[string]struct {
		command string // "": the provider is asked
		outcome string
		warning string
	}{
		"small events, cut": {`n=$(wc -l < $TURN/events.ndjson); awk -v n=$n 'BEGIN {for (i = n; i < n+` + lines + `; ` +
			`i++) print "{\"seq\":" i+1 ",\"stream\":{\"type\":\"response.output_text.delta\",\"sequence_number\":" i ` +
			`"}}"; printf "{\"seq\":"}' >> $TURN/journal.ndjson` + end, "failure", ""},
		"small facts": {`awk 'BEGIN {for (i = 0; i < ` + lines + `; i++) print "{\"seq\":" i+1 ",\"runtime\":` +
			`{\"type\":\"holon.egress.decision\",\"sequence\":" i "}}"}' >> $TURN/journal.ndjson` + end, "failure", ""},
		"one line": {`(head -c 120000000 /dev/zero | tr '\0' x; echo) >> $TURN/journal.ndjson` + end, "failure",
			""},
		"many values": {`(printf '{"seq":1,"stream":{"type":"response.created","response":{"output":['; for i in ` +
			`$(seq 20); do head -c 300000 /dev/zero | sed 's/\x00/{},/g'; done; echo '{}]}}}') > $TURN/journal.ndjson` + end,
			"failure", "values"},
		"record": {`(printf '{"artifacts":['; head -c 2000000 /dev/zero | sed 's/\x00/{},/g'; ` +
			`echo '{}]}') > $TURN/turn.json` + end, "failure", "values"},
		"empty lines": {`head -c 60000000 /dev/zero | tr '\0' '\n' > lines`, "success",
			"compared as binary data"},
		"a flood of text": {"", "failure", "max_output_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runForMemory(t, tc.command, flood.URL)
			if got.hwm-idle.hwm > mostMemory || got.outcome != tc.outcome {
				t.Errorf("%s with %d MiB, an idle run has %d MiB", got.outcome, got.hwm>>20, idle.hwm>>20)
			}
			if !strings.Contains(got.manifest, tc.warning) {
				t.Errorf("the manifest does not say %q:\n%s", tc.warning, got.manifest)
			}
			t.Logf("%d MiB more than idle (%d MiB)", (got.hwm-idle.hwm)>>20, idle.hwm>>20)
		})
	}
}

// floodOfText answers as a model that never ends, in pieces of 64 KiB.
func floodOfText(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\","+
		"\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n\n"+
		"data: {\"type\":\"response.content_part.added\",\"output_index\":0,\"content_index\":0,\"item_id\":\"m\","+
		"\"part\":{\"type\":\"output_text\",\"text\":\"\"}}\n\n")
	text := strings.Repeat("flood ", 64<<10/6)
	for range 8000 { // half a gigabyte
		if _, err := fmt.Fprintf(w, "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,"+
			"\"content_index\":0,\"item_id\":\"m\",\"delta\":%q}\n\n", text); err != nil {
			return
		}
	}
}

// memoryRun is how a run ended and what it took.
type memoryRun struct {
	hwm               int64 // bytes of resident memory at most
	outcome, manifest string
}

// runForMemory runs holon with a model that runs a command, in which $TURN is the directory of the turn, or for "" with
// one of the provider at url. Its stdout is a pipe that is full, so that it waits there with all its work done until its
// memory was read.
func runForMemory(t *testing.T, command, url string) (got memoryRun) {
	t.Helper()
	dir, holon := localRuns(t, "")
	text := fmt.Sprintf("rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: %q}}]\n  - text: Done.\n",
		"TURN=$(echo "+dir+"/home/runs/*/session/output/turns/*); "+command)
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "scenario.yaml"), []byte(text), 0o600))
	out := filepath.Join(dir, "out")
	cmd := holon("run", "--output", out, "--json", "--quiet", "go")
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY=sk-0123456789abcdef", "OPENAI_BASE_URL="+url)
	if command == "" {
		cmd.Env = append(cmd.Env, "HOLON_MODEL=openai/gpt-5")
	}
	reader, writer := fullPipe(t)
	defer reader.Close()
	cmd.Stdout = writer
	var stderr strings.Builder
	cmd.Stderr = &stderr
	expect.NoError(t, errors.Join(cmd.Start(), writer.Close()))
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	defer func() { <-done }()
	defer reader.Close()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if data, err := os.ReadFile(filepath.Join(out, "manifest.json")); err == nil {
			got.manifest = string(data)
			got.hwm = highWater(t, cmd.Process.Pid)
			_, after, _ := strings.Cut(got.manifest, `"outcome": "`)
			got.outcome, _, _ = strings.Cut(after, `"`)
			return got
		}
		select {
		case err := <-done:
			done <- err
			t.Fatalf("holon ended without a manifest: %v\n%s", err, stderr.String())
		default:
		}
	}
	t.Fatalf("holon does not end\n%s", stderr.String())
	return got
}

// fullPipe returns a pipe into which nothing can be written until it is read.
func fullPipe(t *testing.T) (reader, writer *os.File) {
	t.Helper()
	var fds [2]int
	expect.NoError(t, syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK))
	for {
		if _, err := syscall.Write(fds[1], make([]byte, 4096)); err == syscall.EAGAIN {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	expect.NoError(t, syscall.SetNonblock(fds[1], false))
	return os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "writer")
}

// highWater is the most resident memory that a process has had, in bytes.
func highWater(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	expect.NoError(t, err)
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(after + " ? ")[0], 10, 64)
	if err != nil {
		t.Fatalf("no high water mark: %v", err)
	}
	return kilobytes << 10
}
