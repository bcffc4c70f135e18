package cmd_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	{"internal/...", []string{"internal/..."}, "both binaries share it, so it knows neither"},
	{"responses/...", []string{"internal/...", "responses/..."},
		"both sides meet in the protocol, so it knows neither"},
	{"skills", []string{"internal/..."}, "both sides use it, so it knows neither"},
	{"state/ledger", []string{"responses", "responses/turns", "state"}, "the nouns of the ledger know no store"},
	{"state/ledger/ledgertest", []string{"responses", "responses/turns", "state", "state/ledger"}, "what every store must do knows none"},
	{"state/...", []string{"internal/...", "responses", "responses/turns", "state/..."},
		"the ledger knows the protocol's nouns and no process"},

	{"agentd/process", []string{"internal/..."}, "it starts programs and knows nothing of what they are for"},
	{"agentd/config", []string{"agentd/process", "internal/...", "skills"},
		"settings are checked before anything starts"},
	{"agentd/admission", []string{"responses"}, "when a turn may run depends on nothing in it"},
	{"agentd/websocket", []string{"responses"}, "connections carry messages and frames, and know no turn"},
	{"agentd/forward", nil, "it passes bytes on and knows nothing of what they are"},
	{"agentd/turntoken", nil, "it carries a value from the request to where it is sent"},
	{"agentd/preview", []string{"agentd/process"}, "it shows what was captured"},
	{"agentd/tasks", []string{"agentd/preview", "agentd/process", "internal/...", "responses/..."},
		"a task is a process and a record, whoever asks for it"},
	{"agentd/model/registry", []string{"agentd/model/...", "internal/...", "responses"},
		"it makes transports of names and speaks no protocol"},
	{"agentd/model/...", []string{"agentd/model", "agentd/model/endpoint", "agentd/turntoken", "internal/...",
		"responses/..."}, "a provider knows the protocol and no tool, disk or turn"},
	{"agentd/compaction", []string{"agentd/model", "agentd/tools", "internal/...", "responses"},
		"a summary is made of a conversation, outside any turn"},
	{"agentd/mcp", []string{"agentd/preview", "agentd/process", "agentd/tools", "agentd/tools/image",
		"agentd/turntoken", "internal/...", "responses/..."}, "it makes tools of servers and knows no turn"},
	{"agentd/tools", []string{"internal/..."}, "a result's shape depends on no tool"},
	{"agentd/tools/...", []string{"agentd/preview", "agentd/process", "agentd/tasks", "agentd/tools", "internal/...",
		"responses", "responses/tasks"}, "a tool knows its envelope and how to run programs"},
	{"agentd/record", []string{"internal/...", "responses/..."}, "what is written down depends on no model or tool"},
	{"agentd/openapi", nil, "it is a document; its tests compare it with the code"},
	{"agentd/prompt", []string{"internal/...", "responses", "skills"},
		"what a model is told depends on no provider and no tool"},
	{"agentd/activation", []string{"agentd/tools", "internal/...", "responses", "responses/turns", "skills"},
		"it reads results of tools and runs none"},
	{"agentd/structured", []string{"responses"}, "whether an answer fits its schema depends on no turn"},
	{"agentd/turn", []string{"agentd/compaction", "agentd/model", "agentd/structured", "agentd/tools", "internal/...",
		"responses", "responses/turns"}, "the loop knows neither HTTP nor a provider nor a disk"},
	{"agentd", []string{"agentd/...", "internal/...", "responses/...", "skills"},
		"the container's side never sees the host's"},

	{"runner/engine/...", []string{"internal/...", "runner/engine/...", "state"},
		"engines run containers and know no turn"},
	{"runner/workspace/folder", nil, "it opens directories, whatever is in them"},
	{"runner/workspace/gittest", nil, "tests of every package below use it"},
	{"runner/workspace/git", []string{"internal/...", "runner/workspace/folder"},
		"it runs git and reads repositories, and knows no tree of a run"},
	{"runner/workspace/executed", []string{"runner/workspace/git"}, "it is a table of names and where they occur"},
	{"runner/workspace/fetch", []string{"runner/workspace/folder", "runner/workspace/git"},
		"it takes files from a remote and knows no tree of a run"},
	{"runner/workspace/landing", []string{"internal/...", "runner/workspace", "runner/workspace/executed",
		"runner/workspace/folder", "runner/workspace/git"},
		"it writes to the user's repository and knows no engine and no turn"},
	{"runner/workspace", []string{"internal/...", "runner/workspace/executed", "runner/workspace/folder",
		"runner/workspace/git", "state"},
		"trees only read the user's repository, and know no engine and no turn; state has the form of their record"},
	{"runner/socket", []string{"internal/...", "state"},
		"it makes sockets and does not know what answers on them"},
	{"runner/egress", []string{"responses", "responses/turns", "runner/socket", "state"},
		"the proxy knows the form of its facts and no session"},
	{"runner/hosttools", []string{"internal/...", "responses/...", "runner/socket", "state"},
		"it serves turns by their tokens and knows no session"},
	{"runner/gateway", []string{"internal/...", "responses", "runner/socket", "state"},
		"the gateway knows the protocol's errors and no session"},
	{"runner/settings", []string{"internal/...", "runner/engine", "runner/uidpool", "state"},
		"what is set starts nothing and holds no key"},
	{"runner/credentials", []string{"internal/...", "runner/gateway", "runner/settings", "state"},
		"whose key it is depends on no run"},
	{"runner/agent/view", []string{"responses", "runner/agent/rules", "state", "state/ledger"},
		"what is shown is computed from a snapshot, by whomever it is shown"},
	{"runner/control/wire", []string{"responses", "runner/agent/view", "state", "state/ledger"},
		"both sides of the control plane meet in it, so it knows neither"},
	{"runner/control/client", []string{"internal/...", "responses/client", "responses/stream", "runner/agent/view",
		"runner/control/wire", "state", "state/ledger"}, "a client knows the wire and no runtime"},
	{"runner/control", []string{"internal/...", "responses", "runner/agent/rules",
		"runner/agent/scheduler", "runner/agent/view", "runner/control/wire", "runner/socket", "state",
		"state/ledger"}, "it admits and shows, and starts no container"},
	{"runner/agent/tools", []string{"runner/agent/scheduler", "runner/agent/view", "runner/hosttools", "state",
		"state/ledger"}, "a tool makes steps of its agent's lane and knows no container"},
	{"runner/agent/home", []string{"internal/...", "runner/agent/view", "runner/workspace", "skills", "state",
		"state/ledger"}, "a home is files, whoever lives in it"},
	{"runner/agent/rules", []string{"internal/...", "responses", "state", "state/ledger"},
		"rules are functions of what is known"},
	{"runner/agent/scheduler", []string{"responses", "responses/turns", "runner/agent/rules", "state", "state/ledger"},
		"a step reads and writes the ledger and does nothing"},
	{"runner/daemon", []string{"internal/...", "responses/client", "runner", "runner/agent/view",
		"runner/control/client", "runner/control/wire", "runner/socket", "state",
		"state/ledger"}, "it finds a runtime by its control socket and runs none itself"},
	{"runner/turnfiles", []string{"internal/...", "responses/..."},
		"what a turn left depends on no session and no run"},
	{"runner/agent/pool", []string{"internal/...", "responses/...", "runner", "runner/engine", "runner/gateway",
		"runner/hosttools", "runner/turnfiles", "runner/workspace",
		"state/..."}, "it keeps containers and knows no queue"},
	{"runner", []string{"internal/...", "responses", "responses/client", "responses/turns", "runner/egress",
		"runner/engine", "runner/gateway",
		"runner/hosttools", "runner/socket", "runner/uidpool", "runner/workspace/...", "skills", "state",
		"state/files"},
		"a session serves runs and agents alike and knows neither"},
	{"runner/...", []string{"internal/...", "responses/...", "runner/...", "skills", "state/..."},
		"the host's side never sees the container's"},

	{"cmd/agentd", []string{"agentd", "agentd/config", "internal/...", "responses/..."},
		"a command turns flags into options and knows one side"},
	{"cmd/holon", []string{"internal/...", "responses/...", "runner/...", "skills", "state/..."},
		"a command turns flags into options and knows one side"},
	{"test/...", []string{"..."}, "end-to-end tests and drivers of measurements use what they measure"},
}

// foreign says who alone may import a package that is not ours.
var foreign = []struct {
	pkg    string
	within string // the rule holds for these packages of ours
	only   []string
	why    string
}{
	{"os/exec", "agentd/...", []string{"agentd/process"}, "whoever starts a program must end it, so one package does"},
	{"os/exec", "runner/...", []string{"runner/workspace/git", "runner/workspace/gittest", "runner/engine/local",
		"runner/engine/enginetest/...", "runner/credentials", "runner/daemon"}, "git is run in one place, where its environment is made safe, " +
		"children by the engine that owns them, programs that give keys by what bounds them, and holon itself by " +
		"what finds it again"},
	{"os/exec", "cmd/...", nil, "commands call packages"},
	{"os/exec", "responses/...", nil, "the protocol starts nothing"},
	{"os/exec", "state/...", nil, "the ledger starts nothing"},
	{"github.com/docker/docker/...", "...", []string{"runner/engine/docker", "test/..."},
		"its module has a successor; the move must stay a day's work"},
	{"github.com/go-git/go-git/v5/...", "...", []string{"runner/workspace/git", "test/..."},
		"hostile repositories are parsed in one place"},
	{"github.com/openai/openai-go/v3/...", "...", []string{"test/..."},
		"transports post through agentd/model/endpoint; tests compare them with the official client"},
	{"github.com/anthropics/anthropic-sdk-go/...", "...", []string{"test/..."},
		"transports post through agentd/model/endpoint; tests compare them with the official client"},
	{"github.com/tmaxmax/go-sse/...", "...", []string{"responses/stream"}, "framing is one package's business"},
	{"modernc.org/sqlite/...", "...", []string{"state/sqlite", "test/..."},
		"what the ledger is kept in is one package's business"},
	{"github.com/prometheus/...", "...", []string{"runner/control", "test/..."},
		"metrics are a view of the control plane, and agentd stays small"},
	{"net/http/...", "agentd/turn", nil, "the loop knows no HTTP"},
	{"testing", "...", []string{"responses/conform", "agentd/model/modeltest", "state/ledger/ledgertest",
		"runner/engine/enginetest/...", "runner/workspace/gittest", "test/..."},
		"only suites that tests import are made of tests"},
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) (list []listed) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		list = append(list, p)
	}
}

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
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if len(p.GoFiles) > 0 && len(with) != 1 {
			t.Errorf("%s has its comment in %v, want one file", p.ImportPath, with)
		}
	}
}
