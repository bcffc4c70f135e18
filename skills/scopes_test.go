package skills

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
)

// found lists what a catalogue holds as "scope/name", and its roots relative to dir.
func found(c Catalog, dir string) (ids, roots []string) {
	for _, s := range c.Skills {
		ids = append(ids, s.ID())
	}
	for _, r := range c.Roots {
		rel, _ := filepath.Rel(dir, r.Path)
		roots = append(roots, string(r.Scope)+" "+rel)
	}
	return ids, roots
}

// Of the folders of one scope the first that exists counts, even when it is empty.
func TestFirstRootOfAScope(t *testing.T) {
	for _, tc := range []struct {
		name    string
		present []string // folders with a skill named after their place
		empty   []string
		want    []string // roots
	}{
		{name: "none"},
		{name: "user first", present: []string{"u/.agents/skills", "u/.codex/skills", "u/.claude/skills"},
			want: []string{"user u/.agents/skills"}},
		{name: "user second", present: []string{"u/.codex/skills", "u/.claude/skills"},
			want: []string{"user u/.codex/skills"}},
		{name: "user third", present: []string{"u/.claude/skills"}, want: []string{"user u/.claude/skills"}},
		{name: "agent first", present: []string{"a/skills", "a/.agents/skills"}, want: []string{"agent a/skills"}},
		{name: "agent others", present: []string{"a/.agents/skills", "a/.claude/skills"},
			want: []string{"agent a/.agents/skills"}},
		{name: "agent last", present: []string{"a/.codex/skills", "a/.claude/skills"},
			want: []string{"agent a/.codex/skills"}},
		{name: "workspace has no plain skills", present: []string{"w/skills"}},
		{name: "workspace first", present: []string{"w/.agents/skills", "w/.claude/skills"},
			want: []string{"workspace w/.agents/skills"}},
		{name: "workspace third", present: []string{"w/.claude/skills"}, want: []string{"workspace w/.claude/skills"}},
		{name: "an empty one still counts", empty: []string{"w/.agents/skills"}, present: []string{"w/.claude/skills"},
			want: []string{"workspace w/.agents/skills"}},
		{name: "all", present: []string{"u/.claude/skills", "a/skills", "w/.codex/skills"},
			want: []string{"user u/.claude/skills", "agent a/skills", "workspace w/.codex/skills"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			mustMkdir(t, filepath.Join(dir, "u"), filepath.Join(dir, "a"), filepath.Join(dir, "w"))
			for _, folder := range tc.present {
				addSkill(t, filepath.Join(dir, folder), "one", "x")
			}
			for _, folder := range tc.empty {
				mustMkdir(t, filepath.Join(dir, folder))
			}
			roots := Roots{Role: RoleDefault, UserHome: dir + "/u", AgentHome: dir + "/a",
				Workspace: dir + "/w"}
			c := roots.Discover()
			ids, got := found(c, dir)
			if diff := cmp.Diff(tc.want, got); diff != "" || len(c.Problems) != 0 {
				t.Errorf("roots (-want +got):\n%s%v", diff, c.Problems)
			}
			if len(tc.empty) == 0 && len(ids) != len(tc.want) {
				t.Errorf("skills %v", ids)
			}
		})
	}
}

func TestRolesSeeScopes(t *testing.T) {
	dir := t.TempDir()
	addSkill(t, filepath.Join(dir, "u/.agents/skills"), "same", "the user's")
	addSkill(t, filepath.Join(dir, "a/skills"), "same", "the agent's")
	addSkill(t, filepath.Join(dir, "w/.agents/skills"), "same", "the workspace's")
	for role, want := range map[Role][]string{
		RoleDefault: {"user/same", "agent/same", "workspace/same"},
		RoleNamed:   {"agent/same", "workspace/same"},
		RoleChild:   {"agent/same", "workspace/same"},
		"":          {"agent/same", "workspace/same"},
	} {
		c := Roots{Role: role, UserHome: dir + "/u", AgentHome: dir + "/a", Workspace: dir + "/w"}.Discover()
		ids, _ := found(c, dir)
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%q (-want +got):\n%s", role, diff)
		}
		if diff := cmp.Diff([]string{"same"}, c.Names()); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	}
}

// An agent has the skills that it was given and those of its home. Of two that have the same name the given one counts.
func TestGivenSkillsDoNotHideThoseOfTheHome(t *testing.T) {
	dir := t.TempDir()
	addSkill(t, filepath.Join(dir, "given"), "given", "x")
	addSkill(t, filepath.Join(dir, "given"), "both", "the given one")
	addSkill(t, filepath.Join(dir, "a/skills"), "home", "x")
	addSkill(t, filepath.Join(dir, "a/skills"), "both", "the agent's")
	mustMkdir(t, filepath.Join(dir, "empty"))
	for _, tc := range []struct {
		given    string
		want     []string
		problems int
	}{
		{"given", []string{"agent/both", "agent/given", "agent/home"}, 1},
		{"absent", []string{"agent/both", "agent/home"}, 0},
		{"empty", []string{"agent/both", "agent/home"}, 0},
		{"a/skills", []string{"agent/both", "agent/home"}, 0},
	} {
		c := Roots{AgentSkills: filepath.Join(dir, tc.given), AgentHome: dir + "/a"}.Discover()
		ids, _ := found(c, dir)
		if diff := cmp.Diff(tc.want, ids); diff != "" || len(c.Problems) != tc.problems {
			t.Errorf("%s (-want +got):\n%s%v", tc.given, diff, c.Problems)
		}
		if tc.problems > 0 && c.Problems[0].Path != dir+"/a/skills/both/SKILL.md" {
			t.Errorf("the problem is %v, want one of the agent's own", c.Problems[0].Error())
		}
	}
}

// A link out of the working tree is not followed, and does not make another folder
// count instead.
func TestWorkspaceStaysInTheTree(t *testing.T) {
	for name, link := range map[string]func(t *testing.T, outside, tree string){
		"folder": func(t *testing.T, outside, tree string) {
			mustMkdir(t, tree+"/.agents")
			symlink(t, outside, tree+"/.agents/skills")
		},
		"parent": func(t *testing.T, outside, tree string) {
			addSkill(t, outside+"/skills", "secret", "x")
			symlink(t, outside, tree+"/.agents")
		},
		"dangling": func(t *testing.T, _, tree string) {
			mustMkdir(t, tree+"/.agents")
			symlink(t, "nowhere", tree+"/.agents/skills")
		},
		"file": func(t *testing.T, _, tree string) { write(t, tree+"/.agents/skills", "x") },
		"pipe": func(t *testing.T, _, tree string) { // which an open would wait at
			mustMkdir(t, tree+"/.agents")
			expect.NoError(t, syscall.Mkfifo(tree+"/.agents/skills", 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			outside, tree := t.TempDir(), t.TempDir()
			addSkill(t, outside, "secret", "x")
			addSkill(t, tree+"/.claude/skills", "other", "x")
			link(t, outside, tree)
			c := Roots{Workspace: tree}.Discover()
			if len(c.Skills) != 0 || len(c.Problems) != 1 || c.Problems[0].Code != "skill_unsafe" ||
				c.Problems[0].Hint == "" {
				t.Errorf("got %+v, want one problem with the code skill_unsafe and a hint", c)
			}
		})
	}
	tree := t.TempDir()
	addSkill(t, tree+"/tools", "inside", "x")
	mustMkdir(t, tree+"/.agents")
	symlink(t, "../tools", tree+"/.agents/skills")
	if c := (Roots{Workspace: tree}).Discover(); len(c.Skills) != 1 || len(c.Problems) != 0 {
		t.Errorf("a link within the tree: %v, %v", c.Skills, c.Problems)
	}
}

func TestCatalogueIsBounded(t *testing.T) {
	var list []Skill
	for range 300 {
		list = append(list, Skill{Name: "a", Description: strings.Repeat("ä", 1024),
			Path: "/x\x1b[31m\n/a/SKILL.md"})
	}
	text := Catalogue(list)
	if len(text) > 33<<10 || !strings.Contains(text, "more, which are not listed") || strings.ContainsAny(text, "\x1b") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
