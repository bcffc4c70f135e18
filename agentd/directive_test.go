package agentd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/mcp"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// directs answers every call with the directive that its arguments are.
func directs(_ string, arguments json.RawMessage) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}},
		Meta: sdk.Meta{"holon/directive": arguments}}
}

// The host alone says where the calls that follow work, and only below the root of working trees.
func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	socket := serveCalls(t, directs, "Direct")
	h := start(t, withServers(socket, map[string]mcp.Server{"other": {Socket: socket}}))
	tree := h.cfg.Dirs.Workspace
	h.sh("mkdir -p a/sub b .agentd-turns/x; touch file; ln -s b link; ln -s gone broken; ln -s ../state out")
	for name, c := range map[string]struct {
		tool, directive, more string
		want, refused         string
	}{
		"below":          {tool: "Direct", directive: `{working_directory: a/sub}`, want: "a/sub"},
		"absolute":       {tool: "Direct", directive: `{working_directory: "` + tree + `/b"}`, want: "b"},
		"a link within":  {tool: "Direct", directive: `{working_directory: link}`, want: "b"},
		"the root":       {tool: "Direct", directive: `{working_directory: .}`},
		"nothing":        {tool: "Direct", directive: `{}`},
		"another server": {tool: "mcp__other__Direct", directive: `{working_directory: a}`},
		"outside":        {tool: "Direct", directive: `{working_directory: /}`, refused: "must lie under"},
		"above":          {tool: "Direct", directive: `{working_directory: a/../..}`, refused: "must lie under"},
		"a link outside": {tool: "Direct", directive: `{working_directory: out}`, refused: "must lie under"},
		"vanished":       {tool: "Direct", directive: `{working_directory: gone}`, refused: "there is no directory"},
		"a link to none": {tool: "Direct", directive: `{working_directory: broken}`, refused: "a link to nothing"},
		"a file":         {tool: "Direct", directive: `{working_directory: file}`, refused: "there is no directory"},
		"a private tree": {tool: "Direct", directive: `{working_directory: .agentd-turns/x}`, refused: "private tree"},
		"isolated": {tool: "Direct", directive: `{working_directory: a}`, more: `,"isolation":"copy"`,
			refused: "private tree"},
	} {
		id := "turn_" + strings.ReplaceAll(name, " ", "_")
		model := h.scenario(id, fmt.Sprintf(`rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: pwd}}, {tool: %s, arguments: %s},
      {tool: ExecCommand, arguments: {cmd: pwd; echo x > made}}]
  - calls: [{tool: ExecCommand, arguments: {cmd: pwd}}]
  - text: done
`, c.tool, c.directive))
		h.post(`{"model":"` + model + `","input":"go","holon":{"turn_id":"` + id + `"` + c.more + `}}`).response(t)
		results := h.facts(id, turns.ToolResult)
		failed := strings.Join(h.facts(id, turns.ToolFailed), "")
		changed := strings.Join(h.facts(id, turns.WorkDirChanged), "")
		if c.refused != "" {
			if !strings.Contains(failed, `"kind":"working_directory_unusable"`) || !strings.Contains(failed, c.refused) ||
				changed != "" || len(results) != 3 {
				t.Errorf("%s: failed %s, changed %s, %d results", name, failed, changed, len(results))
			}
			continue
		}
		if want := filepath.Join(tree, c.want); len(results) != 4 || failed != "" ||
			!strings.Contains(results[2], want+`\n`) || !strings.Contains(results[3], want+`\n`) ||
			(changed != "") != (c.want != "") || c.want != "" && !strings.Contains(changed, `"work_dir":"`+want+`"`) {
			t.Errorf("%s: failed %s, changed %s, results\n%s", name, failed, changed, strings.Join(results, "\n"))
		}
	}
}

// A directive that cannot be read fails its call.
func TestMalformedDirective(t *testing.T) {
	t.Parallel()
	h := start(t, withServers(serveCalls(t, directs, "Direct"), nil))
	model := h.scenario("bad", "rounds:\n  - calls: [{tool: Direct, arguments: {working_directory: [a]}}]\n  - text: x\n")
	h.post(`{"model":"` + model + `","input":"go","holon":{"turn_id":"turn_bad"}}`).response(t)
	failed := strings.Join(h.facts("turn_bad", turns.ToolFailed), "")
	expect.Contains(t, "the failed call", failed, "mcp_result_unreadable")
}

// Instructions and workspace skills come from the anchor, which must lie below its root; the turn works elsewhere.
func TestAnchor(t *testing.T) {
	t.Parallel()
	h := start(t)
	put := func(path, text string) {
		t.Helper()
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	const skill = "---\nname: %s\ndescription: of the %[1]s\n---\n"
	for place, dir := range map[string]string{"tree": filepath.Join(h.cfg.Dirs.Workspace, "a"),
		"anchor": filepath.Join(h.cfg.Dirs.Anchors, "ws_1")} {
		put(filepath.Join(dir, "AGENTS.md"), "Of the "+place+".")
		put(filepath.Join(dir, ".agents", "skills", place, "SKILL.md"), fmt.Sprintf(skill, place))
	}
	expect.NoError(t, os.Symlink(h.cfg.Dirs.State, filepath.Join(h.cfg.Dirs.Anchors, "out")))
	for _, c := range []struct{ holon, instructions, skills string }{
		{`"workspace_dir":"a"`, "Of the tree.", "tree"},
		{`"workspace_dir":"a","anchor_dir":"ws_1"`, "Of the anchor.", "anchor"},
	} {
		var p turns.Preview
		expect.NoError(t, json.Unmarshal(h.do(http.MethodPost, "/responses/preview",
			`{"input":"x","holon":{`+c.holon+`}}`).body, &p))
		source := ""
		for _, s := range p.Sources {
			if s.Name == "workspace" {
				source = s.Path
			}
		}
		anchored := strings.Contains(c.holon, "anchor_dir")
		if !strings.Contains(p.Instructions, c.instructions) || strings.Join(p.Skills, " ") != c.skills ||
			p.WorkDir != filepath.Join(h.cfg.Dirs.Workspace, "a") ||
			strings.HasPrefix(source, h.cfg.Dirs.Anchors) != anchored {
			t.Errorf("%s: skills %q in %s, instructions from %s", c.holon, p.Skills, p.WorkDir, source)
		}
	}
	for _, dir := range []string{"../tree/a", h.cfg.Dirs.Workspace, "out", "gone", "ws_1/AGENTS.md"} {
		a := h.post(`{"input":"x","holon":{"anchor_dir":` + quote(dir) + `}}`)
		if e := a.failure(t); a.status != http.StatusBadRequest || e.Param != "holon.anchor_dir" ||
			e.Code != responses.CodePathOutsideRoot && e.Code != responses.CodeInvalidValue {
			t.Errorf("%s: %d %+v", dir, a.status, e)
		}
	}
}
