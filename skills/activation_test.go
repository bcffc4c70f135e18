package skills

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestActivated(t *testing.T) {
	const home = "/home/u"
	catalog := Catalog{Skills: []Skill{
		{Name: "pdf", Path: "/holon/skills/pdf/SKILL.md", Scope: "agent"},
		{Name: "lint", Path: "/tree/.agents/skills/lint/SKILL.md", Scope: "workspace"},
		{Name: "mine", Path: home + "/.agents/skills/mine/SKILL.md", Scope: "user"},
	}}
	const (
		readPDF  = "agent/pdf read_skill_md /holon/skills/pdf/SKILL.md"
		readLint = "workspace/lint read_skill_md /tree/.agents/skills/lint/SKILL.md"
		readMine = "user/mine read_skill_md " + home + "/.agents/skills/mine/SKILL.md"
		fillPDF  = "agent/pdf run_skill_script /holon/skills/pdf/scripts/fill.py"
	)
	for command, want := range map[string][]string{
		"cat /holon/skills/pdf/SKILL.md":                    {readPDF},
		"sed -n 1,80p '/holon/skills/pdf/SKILL.md'|head":    {readPDF},
		"cat </holon/skills/pdf/SKILL.md":                   {readPDF},
		"bash -lc \"cat /holon/skills/pdf/SKILL.md\"":       {readPDF},
		"python3 -c \"open('/holon/skills/pdf/SKILL.md')\"": {readPDF},
		"F=/holon/skills/pdf/SKILL.md; cat $F":              {readPDF},
		"cat /holon//skills/./x/../pdf/SKILL.md":            {readPDF},
		"cat .agents/skills/lint/SKILL.md":                  {readLint},
		"cat ./.agents/skills/lint/SKILL.md":                {readLint},
		"cd .agents/skills/lint && cat SKILL.md":            {readLint},
		"cd .agents; cd skills/lint; cat SKILL.md":          {readLint},
		"cat ~/.agents/skills/mine/SKILL.md":                {readMine},
		"cat \"$HOME/.agents/skills/mine/SKILL.md\"":        {readMine},
		"cat ${HOME}/.agents/skills/mine/SKILL.md":          {readMine},
		"/holon/skills/pdf/scripts/fill.py a.pdf":           {fillPDF},
		"cd /holon/skills/pdf && python3 scripts/fill.py":   {fillPDF},
		"cat /holon/skills/pdf/SKILL.md; cat .agents/skills/lint/SKILL.md /holon/skills/pdf/SKILL.md": {readPDF,
			readLint},
		"sh .agents/skills/lint/scripts/sub/all.sh": {
			"workspace/lint run_skill_script /tree/.agents/skills/lint/scripts/sub/all.sh"},
		"sh /holon/skills/pdf/scripts/scripts/a": {
			"agent/pdf run_skill_script /holon/skills/pdf/scripts/scripts/a"},
		"ls /holon/skills/pdf /holon/skills/pdf/scripts": nil,
		"cat /holon/skills/pdf/reference.md":             nil,
		"cat /holon/skills/other/SKILL.md":               nil,
		"cat /elsewhere/holon/skills/pdf/SKILL.md":       nil,
		"cat /holon/skills/pdf/SKILL.md.bak":             nil,
		"cat /holon/skills/pdf/SKILL.md/x":               nil,
		"cat /holon/skills/*/SKILL.md":                   nil,
		"cat SKILL.md":                                   nil,
		"cat $DIR/SKILL.md":                              nil,
		"":                                               nil,
	} {
		var got []string
		for _, a := range catalog.Activated(command, "/tree", home) {
			got = append(got, a.Skill.ID()+" "+string(a.Reason)+" "+a.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
	if got := (Catalog{}).Activated("cat /holon/skills/pdf/SKILL.md", "/", ""); got != nil {
		t.Errorf("nothing was discovered: %v", got)
	}
	if got := catalog.Activated("cat ~/.agents/skills/mine/SKILL.md", "/elsewhere", ""); got != nil {
		t.Errorf("without a home: %v", got)
	}
}

// A command activates only skills that were discovered, and the same command
// gives the same facts.
func FuzzActivated(f *testing.F) {
	for _, seed := range []string{"cat /s/a/SKILL.md", "cd /s && sh a/scripts/x", "~/a/SKILL.md", "$HOME/",
		"/scripts/scripts//", "cd cd cd", "\x00/s/a/SKILL.md\xff", strings.Repeat("/scripts", 1000)} {
		f.Add(seed)
	}
	catalog := Catalog{Skills: []Skill{{Name: "a", Path: "/s/a/SKILL.md"},
		{Name: "b", Path: "/home/b/SKILL.md"}}}
	f.Fuzz(func(t *testing.T, command string) {
		got := catalog.Activated(command, "/s", "/home")
		if diff := cmp.Diff(got, catalog.Activated(command, "/s", "/home")); diff != "" {
			t.Fatal(diff)
		}
		for _, a := range got {
			rel, err := filepath.Rel(a.Skill.Dir(), a.Path)
			if err != nil || !filepath.IsLocal(rel) {
				t.Fatalf("%+v", a)
			}
			if a.Reason == "read_skill_md" && rel != File ||
				a.Reason == "run_skill_script" && !strings.HasPrefix(rel, "scripts/") {
				t.Fatalf("%+v", a)
			}
		}
	})
}
