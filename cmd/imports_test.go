package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"holon/test/expect"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the path of this module.
const module = "holon/"

// own says which packages of ours a package may import. The first pattern that
// fits a package counts, so the narrow ones come first; every package needs one.
var own = []struct {
	pkg string
	may []string
	why string
}{
	{"internal/...", []string{"internal/..."}, "Both binaries use these packages, so they depend on neither side."},
	{"responses/websocket", []string{"responses"}, "A connection carries messages and does not know what a turn is."},
	{"responses/...", []string{"internal/...", "responses/..."},
		"The protocol is what both sides share, so it depends on neither side."},
	{"skills", []string{"internal/..."}, "Both sides read skills, so the package depends on neither side."},
	{"state/ledger", []string{"responses", "responses/agentruntime", "responses/tasks", "responses/turns", "state"},
		"The ledger's records and interfaces do not depend on the store that implements them."},
	{"state/...", []string{"internal/...", "responses", "responses/agentruntime", "responses/tasks", "responses/turns",
		"state/..."},
		"Stores keep records of the protocol and of the ledger, and never start anything."},

	{"agentd/privilege", nil, "Who agentd and its commands are does not depend on what they do."},
	{"agentd/pod", []string{"internal/..."}, "It holds any program, and does not know that it is agentd."},
	{"agentd/process", []string{"agentd/privilege", "internal/..."},
		"It starts and ends programs without knowing which tool asked for them."},
	{"agentd/config", []string{"agentd/privilege", "internal/...", "skills"},
		"Settings are checked before anything starts, so nothing that runs is needed to check them."},
	{"agentd/admission", []string{"responses"}, "The order of turns does not depend on what a turn does."},
	{"agentd/forward", nil, "It copies bytes between connections without interpreting them."},
	{"agentd/turntoken", nil,
		"It only carries a value from the request to the provider and the MCP servers that receive it."},
	{"agentd/preview", []string{"agentd/process"},
		"It shortens captured output and needs only the type of that output."},
	{"agentd/tasks", []string{"agentd/preview", "agentd/process", "internal/...", "responses/..."},
		"A task is a process and a record; it does not depend on the tool that started it."},
	{"agentd/model/registry", []string{"agentd/model/...", "internal/...", "responses"},
		"It maps names to transports and leaves the protocols to them."},
	{"agentd/model/...", []string{"agentd/model", "agentd/model/endpoint", "agentd/turntoken", "internal/...",
		"responses/..."},
		"A transport knows its provider's protocol, and no tool, disk or turn."},
	{"agentd/compaction", []string{"agentd/model", "agentd/tools", "internal/...", "responses"},
		"It summarizes a conversation and does not depend on the turn that needs the summary."},
	{"agentd/mcp", []string{"agentd/preview", "agentd/process", "agentd/tools", "agentd/tools/image",
		"agentd/turntoken", "internal/...", "responses/..."},
		"It turns tools of MCP servers into ours and does not know what a turn is."},
	{"agentd/tools", []string{"agentd/preview", "agentd/privilege", "internal/...", "responses", "responses/turns"},
		"The registry and the form of results do not depend on any tool."},
	{"agentd/tools/...", []string{"agentd/preview", "agentd/process", "agentd/tasks", "agentd/tools", "internal/...",
		"responses", "responses/tasks", "responses/turns"},
		"A tool needs its own result type and a way to run programs, and no turn, model or server."},
	{"agentd/record", []string{"agentd/privilege", "internal/...", "responses/..."},
		"The record of a turn does not depend on any model or tool."},
	{"agentd/worktree", []string{"internal/...", "responses"},
		"A private tree is files and a patch, and does not know the turn that works there."},
	{"agentd/openapi", nil, "It is a document; its tests compare the document with the code."},
	{"agentd/prompt", []string{"internal/...", "responses", "skills"},
		"The instructions for a model do not depend on a provider or a tool."},
	{"agentd/activation", []string{"agentd/tools", "internal/...", "responses", "responses/turns", "skills"},
		"It reads results of tools to find activated skills, and runs no tool."},
	{"agentd/structured", []string{"responses"}, "Checking an answer against its schema needs only the protocol."},
	{"agentd/turn", []string{"agentd/compaction", "agentd/model", "agentd/structured", "agentd/tools", "internal/...",
		"responses", "responses/turns"},
		"The loop of a turn does not know HTTP, a particular provider or the disk."},
	{"agentd", []string{"agentd/...", "internal/...", "responses/...", "skills"},
		"The container's side never imports the host's side."},

	{"runner/engine/...", []string{"internal/...", "runner/engine/...", "state"},
		"Engines run containers and do not know what a turn is."},
	{"runner/workspace/git", []string{"internal/..."},
		"It runs git and reads repositories, and does not know the trees of runs."},
	{"runner/workspace/executed", []string{"internal/...", "runner/workspace/git"},
		"It is a table of file names and of where git keeps them."},
	{"runner/workspace/fetch", []string{"internal/...", "runner/workspace/git"},
		"It fetches files of a remote repository and does not know the trees of runs."},
	{"runner/workspace/landing", []string{"internal/...", "runner/workspace", "runner/workspace/executed",
		"runner/workspace/git"},
		"It writes to the user's repository and does not know engines or turns."},
	{"runner/workspace", []string{"internal/...", "runner/workspace/executed", "runner/workspace/git", "state"},
		"Private trees only read the user's repository, and do not know engines or turns."},
	{"runner/service", []string{"internal/...", "state"},
		"It reads a text and starts nothing."},
	{"runner/socket", []string{"internal/...", "state"},
		"It makes sockets and does not know which server answers on them."},
	{"runner/access", []string{"internal/...", "state"},
		"It says who a caller is and does not know which server asks."},
	{"runner/egress", []string{"internal/...", "responses", "responses/turns", "runner/socket", "state"},
		"The proxy writes facts in the form of the protocol and does not know the session."},
	{"runner/hosttools", []string{"internal/...", "responses/...", "runner/socket", "state"},
		"It authenticates a turn by its token and does not know the session."},
	{"runner/gateway", []string{"internal/...", "responses", "responses/stream", "runner/socket", "state"},
		"The gateway answers with errors of the protocol and does not know the session."},
	{"runner/telemetry", []string{"internal/...", "responses", "responses/turns"},
		"Spans are made from facts, whatever the session does with them."},
	{"runner/settings", []string{"internal/...", "runner/engine", "runner/service", "runner/uidpool", "state"},
		"Reading settings starts nothing and touches no key."},
	{"runner/credentials", []string{"internal/...", "runner/gateway", "runner/settings", "state"},
		"The choice of a key does not depend on a run."},
	{"runner/agent/record", []string{"internal/...", "responses", "responses/agentruntime", "responses/tasks",
		"responses/turns", "runner/activity", "state", "state/ledger"},
		"The log of an agent and its folds: they read events and nothing else."},
	{"runner/agent/view", []string{"internal/visible", "responses", "responses/agentruntime", "responses/tasks",
		"responses/turns", "runner/agent/record", "runner/agent/rules", "state", "state/ledger"},
		"A view is computed from a snapshot of the ledger and does not depend on its readers."},
	{"runner/control/wire", []string{"responses", "responses/turns", "runner/agent/view", "state", "state/ledger"},
		"The client and the server of the control plane share it, so it imports neither."},
	{"runner/control/client", []string{"internal/...", "responses", "responses/client", "responses/stream", "responses/tasks",
		"runner/agent/record", "runner/agent/view", "runner/control/wire", "state", "state/ledger"},
		"A client knows the wire types and no server."},
	{"runner/console", []string{"internal/...", "responses", "responses/tasks", "responses/turns", "runner/agent/view",
		"runner/control/client", "runner/control/wire", "runner/present", "state", "state/ledger"},
		"The console is a client of the control plane and knows no server."},
	{"runner/control", []string{"internal/...", "responses", "responses/agentruntime", "responses/stream", "responses/tasks",
		"responses/turns",
		"runner/agent/record", "runner/agent/rules", "runner/agent/scheduler", "runner/agent/signature",
		"runner/agent/view", "runner/access", "runner/control/wire", "runner/socket", "state",
		"state/ledger"},
		"The control plane accepts requests and shows state, and starts no container."},
	{"runner/agent/answers", []string{"responses", "responses/stream", "responses/turns", "runner/access",
		"runner/agent/scheduler", "state", "state/ledger"},
		"It shows turns that the ledger and the files of a session have, and takes steps of the scheduler; it runs nothing."},
	{"runner/agent/signature", []string{"internal/visible"}, "It verifies headers and bytes, and keeps nothing."},
	{"runner/agent/memorysearch", []string{"internal/redact", "internal/roots", "internal/visible", "responses/turns", "runner/agent/view",
		"state", "state/ledger", "state/recall"},
		"It reads the ledger and files of a home into an index, and takes no step."},
	{"runner/agent/tools", []string{"internal/redact", "internal/visible", "responses/tasks", "responses/turns",
		"runner/agent/memorysearch", "runner/agent/record", "runner/agent/rules", "runner/agent/scheduler", "runner/agent/view", "runner/hosttools",
		"state", "state/ledger"},
		"A tool takes steps of its agent in the ledger and does not know containers."},
	{"runner/agent/deliver", []string{"internal/...", "responses/turns", "runner/agent/scheduler",
		"runner/agent/signature", "runner/egress",
		"runner/gateway", "state", "state/ledger"},
		"It brings out what the ledger has, and takes steps of the scheduler; it knows neither turns nor containers."},
	{"runner/agent/home", []string{"internal/...", "responses", "responses/turns", "runner/agent/view", "runner/workspace", "skills",
		"state", "state/ledger"},
		"The home of an agent is a directory of files and does not depend on the agent that runs."},
	{"runner/agent/rules", []string{"internal/...", "responses", "responses/agentruntime", "responses/tasks", "state",
		"state/ledger"},
		"Rules are functions of ledger records, without I/O."},
	{"runner/agent/memory", []string{"internal/pattern", "internal/visible", "responses/turns", "runner/activity",
		"runner/agent/rules", "state/ledger"},
		"What an agent remembers is a function of ledger records, without I/O."},
	{"runner/agent/scheduler", []string{"internal/crontab", "internal/visible", "responses", "responses/agentruntime",
		"responses/tasks", "responses/turns",
		"runner/agent/memory", "runner/agent/record", "runner/agent/rules", "runner/agent/signature", "state",
		"state/ledger"},
		"A step reads and writes the ledger and has no other effect."},
	{"runner/projectimage", []string{"internal/...", "state"},
		"It reads a recipe and calls docker, and does not know runs."},
	{"runner/daemon", []string{"internal/...", "responses/client", "responses/turns", "runner", "runner/agent/view",
		"runner/control/client", "runner/control/wire", "runner/socket", "state", "state/ledger"},
		"It finds a daemon by its control socket and runs no agent itself."},
	{"runner/present/terminal", []string{"internal/..."}, "It draws a text and does not know what it is of."},
	{"runner/present", []string{"internal/...", "responses", "responses/turns", "runner/activity", "runner/agent/record",
		"runner/agent/view", "runner/control/wire", "state", "state/ledger"},
		"What a person is shown depends on what happened and on nothing that runs."},
	{"runner/tui", []string{"internal/...", "responses", "responses/turns", "runner/agent/record", "runner/agent/rules",
		"runner/agent/view", "runner/control/client", "runner/control/wire", "runner/present/...", "runner/review",
		"state"},
		"The operator's seat is a client of the control plane and owns nothing that runs."},
	{"runner/review", []string{"internal/visible"}, "Comments are made of texts, and know no run."},
	{"runner/acp", []string{"responses", "responses/client"},
		"An editor's agent is a client of the daemon and knows nothing but the protocols."},
	{"runner/turnfiles", []string{"internal/...", "responses/..."},
		"The files that a turn left can be read without a session or a run."},
	{"runner/sessions", []string{"internal/...", "responses/...", "runner", "runner/engine", "runner/gateway",
		"runner/service", "runner/turnfiles", "runner/workspace", "state", "state/files", "state/ledger"},
		"Runs and agents have sessions, so that the package which keeps them imports neither."},
	{"runner/pool", []string{"internal/...", "responses/...", "runner", "runner/engine", "runner/gateway",
		"runner/hosttools", "runner/sessions", "runner/turnfiles", "runner/workspace", "state/..."},
		"The pool keeps containers and does not know the queue of messages."},
	{"runner/conversation", []string{"internal/...", "responses/...", "runner", "runner/gateway", "runner/pool",
		"runner/sessions", "runner/turnfiles", "runner/workspace/...", "state", "state/files"},
		"Sessions of clients have turns and trees, and do not know HTTP or agents."},
	{"runner/openresponses/...", []string{"internal/...", "responses/...", "runner", "runner/access",
		"runner/openresponses/...", "state"},
		"It routes requests to sessions and agents through interfaces, and starts no container."},
	{"runner", []string{"internal/...", "responses", "responses/client", "responses/tasks", "responses/turns",
		"runner/egress",
		"runner/engine", "runner/engine/link", "runner/gateway", "runner/hosttools", "runner/service", "runner/socket",
		"runner/telemetry", "runner/uidpool",
		"runner/workspace/...", "skills", "state", "state/files"},
		"Runs and agents both use sessions, so a session imports neither."},
	{"runner/...", []string{"internal/...", "responses/...", "runner/...", "skills", "state/..."},
		"The host's side never imports the container's side."},

	{"cmd/agentd", []string{"agentd", "agentd/config", "agentd/pod", "agentd/privilege", "internal/...", "responses/..."},
		"The command turns flags into options, and belongs to the container's side only."},
	{"cmd/holon", []string{"internal/...", "responses/...", "runner/...", "skills", "state/..."},
		"The command turns flags into options, and belongs to the host's side only."},
	{"test/conform/...", []string{"internal/...", "responses/...", "test/conform/..."},
		"The suite checks any server of the protocol, so it knows only the protocol."},
	{"test/ledgertest", []string{"responses", "responses/agentruntime", "responses/tasks", "responses/turns",
		"state", "state/ledger", "test/expect"},
		"The suite runs against every store, so it imports none."},
	{"test/memory", nil, "Tests of every package may keep their files in memory."},
	{"test/gittest", []string{"test/expect", "test/memory"}, "Tests of every package that reads git use these fixtures."},
	{"test/telemetrytest", nil, "A collector for tests knows only the protocol of OpenTelemetry."},
	{"test/...", []string{"..."}, "End-to-end tests and benchmarks import what they exercise."},
}

// foreign says who alone may import a package that is not ours.
var foreign = []struct {
	pkg    string
	within string // the rule holds for these packages of ours
	only   []string
	why    string
}{
	{"os/exec", "agentd/...", []string{"agentd/process"},
		"Every program that agentd starts must be ended by it, so one package starts them all."},
	{"os/exec", "runner/...", []string{"runner/workspace/git", "runner/engine/local", "runner/credentials",
		"runner/daemon", "runner/agent/deliver", "runner/projectimage", "runner/engine/docker"},
		"Each start of a program has one owner: git in a clean environment, the local engine's " +
			"processes, the ssh of a connection to an engine, commands that print a key or get a notification, and what " +
			"goes on in the background."},
	{"os/exec", "cmd/...", nil, "Commands call packages and start no programs themselves."},
	{"os/exec", "responses/...", nil, "The protocol starts no programs."},
	{"os/exec", "state/...", nil, "The ledger starts no programs."},
	{"github.com/docker/docker/...", "...", []string{"runner/engine/docker", "test/..."},
		"The module has a successor, and the move to it must stay small."},
	{"k8s.io/...", "...", []string{"runner/engine/kubernetes"},
		"The client of a cluster is large, and its types stay in one package."},
	{"github.com/go-git/go-git/v5/...", "...", []string{"runner/workspace/git", "agentd/worktree", "test/..."},
		"Hostile repositories are parsed in one place of each side only."},
	{"github.com/openai/openai-go/v3/...", "...", []string{"agentd/model/openai", "test/..."},
		"A vendor's client stays in the transport of its protocol."},
	{"github.com/anthropics/anthropic-sdk-go/...", "...", []string{"test/..."},
		"Transports speak their protocols themselves, and only tests use the vendor's client."},
	{"charm.land/bubbletea/...", "...", []string{"runner/tui"}, "One package draws and reads the whole terminal."},
	{"charm.land/bubbles/...", "...", []string{"runner/tui"}, "One package draws and reads the whole terminal."},
	{"github.com/tmaxmax/go-sse/...", "...", []string{"responses/stream"}, "Only one package frames events."},
	{"github.com/godbus/dbus/v5/...", "...", []string{"runner/agent/deliver"},
		"One package knows the desktop."},
	{"modernc.org/sqlite/...", "...", []string{"state/recall", "state/sqlite", "test/..."},
		"Only one package knows the database behind the ledger."},
	{"github.com/jackc/pgx/...", "...", []string{"state/postgres", "test/..."},
		"Only one package knows each database behind the ledger."},
	{"github.com/minio/minio-go/...", "...", []string{"state/store"}, "Only one package knows the protocol of buckets."},
	{"github.com/pressly/goose/...", "...", []string{"state/postgres"}, "Only schemas of that database are migrated."},
	{"github.com/prometheus/...", "...", []string{"runner/control", "test/..."},
		"Metrics are served by the control plane, and agentd stays small."},
	{"go.opentelemetry.io/...", "...", []string{"runner/telemetry", "test/..."},
		"Spans are made and named in one place, and agentd stays small."},
	{"net/http/...", "agentd/turn", nil, "The loop of a turn does not know HTTP."},
	{"testing", "...", []string{"test/..."},
		"Only suites that tests import are written with package testing, and they are below test."},
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// packages are those of this module.
func packages(t *testing.T) []listed {
	t.Helper()
	list, err := listPackages()
	expect.NoError(t, err)
	return list
}

var listPackages = sync.OnceValues(func() (list []listed, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go list prints: %w", err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		list = append(list, p)
	}
})

// fits reports whether pattern, which may end in /..., names the package.
func fits(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	prefix, all := strings.CutSuffix(pattern, "/...")
	return pkg == prefix || all && strings.HasPrefix(pkg, prefix+"/")
}

func fitsAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, pkg) })
}

// offences returns what is wrong with a package's imports.
func offences(p listed) (list []string) {
	at := slices.IndexFunc(own, func(r struct {
		pkg string
		may []string
		why string
	}) bool {
		return fits(r.pkg, p.ImportPath)
	})
	if at < 0 {
		return []string{p.ImportPath + " has no rule: say what it may import, and why"}
	}
	for _, imp := range p.Imports {
		if ours, ok := strings.CutPrefix(imp, module); ok && !fitsAny(own[at].may, ours) {
			list = append(list, p.ImportPath+" must not import "+ours+": "+own[at].why)
		}
		for _, r := range foreign {
			if fits(r.pkg, imp) && fits(r.within, p.ImportPath) && !fitsAny(r.only, p.ImportPath) {
				list = append(list, p.ImportPath+" must not import "+imp+": "+r.why)
			}
		}
	}
	return list
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue // tests only
		}
		for _, offence := range offences(p) {
			t.Error(offence)
		}
	}
}

// The rules themselves must be able to fail.
func TestImportRulesBite(t *testing.T) {
	for pkg, imp := range map[string]string{
		"responses": module + "state", "skills": module + "responses", "state": module + "runner",
		"agentd":      module + "runner/engine",
		"agentd/turn": module + "agentd/record", "agentd/record": module + "agentd",
		"agentd/model/openai": module + "agentd/tools", "agentd/process": module + "responses",
		"runner": module + "agentd/process", "runner/workspace": module + "runner/engine",
		"cmd/agentd": module + "agentd/turn", "agentd/tools/command": "os/exec",
		"runner/gateway": "os/exec", "runner/engine": "github.com/docker/docker/client",
		"agentd/tools/patch": "github.com/go-git/go-git/v5", "nowhere": "fmt",
	} {
		if len(offences(listed{ImportPath: pkg, Imports: []string{imp}})) == 0 {
			t.Errorf("%s may import %s", pkg, imp)
		}
	}
	if bad := offences(listed{ImportPath: "agentd/record",
		Imports: []string{module + "internal/durable", "os"}}); len(bad) != 0 {
		t.Errorf("refused: %v", bad)
	}
}

// A reader finds what a package does, keeps and does not promise in one place.
func TestEveryPackageHasOneComment(t *testing.T) {
	for _, p := range packages(t) {
		var with []string
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
				parser.PackageClauseOnly|parser.ParseComments)
			expect.NoError(t, err)
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if len(p.GoFiles) > 0 && len(with) != 1 {
			t.Errorf("%s has its comment in %v, want one file", p.ImportPath, with)
		}
	}
}
