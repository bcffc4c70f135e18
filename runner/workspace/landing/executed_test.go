package landing

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/gittest"
)

// agree is a person who read the files that programs execute.
func agree([]workspace.Warning) error { return nil }

// Apply and Checkout write nothing of a change with files that programs execute unless the caller agrees.
func TestExecutedNeedsConfirmation(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "x/refs/.keep": "", "x/objects/.keep": ""})
	tree := acquire(t, workspace.Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) {
		gittest.Write(t, dir, map[string]string{"a.txt": "b\n", ".envrc": "id\n", "x/config": "[core]\n"})
	})
	gittest.Write(t, repo, map[string]string{"x/HEAD": "ref: refs/heads/main\n"}) // the person's own, later
	before := userFiles(t, repo)
	options := ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects, Warnings: o.Diff.Warnings}
	_, err := Apply(t.Context(), options)
	wantRefusal(t, err, CodeExecutedFiles)
	if e, ok := errors.AsType[*git.Error](err); !ok || !slices.Equal(e.Paths, []string{".envrc", "x/config"}) ||
		!strings.Contains(e.Error(), ".envrc") || !strings.Contains(e.Error(), "--allow-executed") {
		t.Errorf("got %#v, want a refusal of .envrc and x/config that names --allow-executed", err)
	}
	_, err = Checkout(t.Context(), o)
	wantRefusal(t, err, CodeExecutedFiles)
	no := errors.New("no")
	options.Confirm = func([]workspace.Warning) error { return no }
	if _, err := Apply(t.Context(), options); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if after := userFiles(t, repo); after != before || gittest.Run(t, repo,
		"git", "branch", "--list", "holon/*") != "" {
		t.Errorf("something was written:\n%s\n%s", before, after)
	}
	options.Confirm, o.Confirm = agree, agree
	if result := checkedOut(t, o); !git.Exists(filepath.Join(result.Path, ".envrc")) {
		t.Error("the file is not checked out")
	}
	o.Confirm = nil // it is there: nothing is written
	if !checkedOut(t, o).Existing {
		t.Error("the existing working tree is made again")
	}
	if result, err := Apply(t.Context(), options); err != nil || len(result.Written) != 3 {
		t.Errorf("%+v, %v", result, err)
	}
}

// What the user's own configuration of git names in the tree is executed at the next git status, diff or commit.
func TestConfiguredIsExecuted(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "work.inc")
	gittest.Write(t, filepath.Dir(outside), map[string]string{"work.inc": "[gpg]\n\tprogram = ./sign\n"})
	filter := func(command string) string { return "[filter \"x\"]\n\tclean = " + strconv.Quote(command) + "\n" }
	tools := []string{"tools/b c.sh", "tools/lib/x.sh", "tools/monitor", "tools/t.sh"}
	for setting, tt := range map[string]struct {
		config   string
		executed []string // of the change; other files of it are not
	}{
		"nothing":               {"", nil},
		"include.path":          {"[include]\n\tpath = ../shared.inc\n", []string{"shared.inc"}},
		"includeif.gitdir":      {"[includeIf \"gitdir:/x/\"]\n\tpath = ../shared.inc\n", []string{"shared.inc"}},
		"an include elsewhere":  {"[include]\n\tpath = " + outside + "\n", []string{"sign"}},
		"core.fsmonitor":        {"[core]\n\tfsmonitor = tools/monitor --fast\n", []string{"tools/monitor"}},
		"core.fsmonitor, no":    {"[core]\n\tfsmonitor = true\n", nil},
		"a first word":          {"[core]\n\tfsmonitor = sign\n", nil}, // of the PATH
		"core.hooksPath":        {"[core]\n\thooksPath = tools\n", tools},
		"core.hooksPath, case":  {"[core]\n\thookspath = TOOLS\n", tools},
		"filter.clean":          {"[filter \"x\"]\n\tclean = python3 sign %f\n", []string{"sign"}},
		"filter.process":        {"[filter \"x\"]\n\tprocess = \"sh -c 'exec ./sign'\"\n", []string{"sign"}},
		"diff.textconv":         {"[diff \"x\"]\n\ttextconv = $(git rev-parse --show-toplevel)/sign\n", []string{"sign"}},
		"diff.command":          {"[diff \"x\"]\n\tcommand = $PWD/tools/monitor\n", []string{"tools/monitor"}},
		"a link":                {"[core]\n\tfsmonitor = way/monitor\n", []string{"tools/monitor"}},
		"cd":                    {filter("cd tools && ./t.sh"), tools},
		"cd in parentheses":     {filter("(cd tools; ./t.sh)"), tools},
		"cd to a variable":      {filter("cd $X && ./t.sh"), []string{"tools/t.sh"}},
		"env -C":                {filter("env -C tools ./t.sh"), tools},
		"make -C":               {filter("make -Ctools"), tools},
		"a module":              {filter("python3 -m tools.t"), tools},
		"a module elsewhere":    {filter("cd $X && python3 -m t"), []string{"tools/t.sh"}},
		"quotes":                {filter("sh 'tools/b c.sh'"), []string{"tools/b c.sh"}},
		"quotes in quotes":      {filter("sh -c 'cd $X && ./\"b c.sh\"'"), []string{"tools/b c.sh"}},
		"a backslash":           {filter("sh tools/b\\ c.sh"), []string{"tools/b c.sh"}},
		"a backslash in a name": {filter("sh to\\ols/t.sh"), []string{"tools/t.sh"}},
		"PATH":                  {filter("PATH=$PWD/tools:$PATH t.sh"), tools},
		"PATH, a variable":      {filter("PATH=$X:$PATH t.sh"), []string{"tools/t.sh"}},
		"a glob":                {filter("sh tools/t*.sh"), tools},
		"a glob of all":         {filter("sh */t?sh"), []string{"tools/t.sh"}},
		"a glob of directories": {filter("cd too* && sh t"), tools},
		"braces":                {filter("sh tools/{t,u}.sh"), tools},
		"a variable":            {filter("d=tools; $d/t.sh"), tools},
		"part of a name":        {filter("d=tool; sh ${d}s/t.sh"), []string{"tools/t.sh"}},
		"a default":             {filter("sh ${X:-tools}/t.sh"), tools},
		"a substitution":        {filter("\"$(git rev-parse --show-toplevel)\"/sign"), []string{"sign"}},
		"backquotes":            {filter("`git rev-parse --show-toplevel`/sign"), []string{"sign"}},
		"no extension":          {filter("node ./tools/t"), []string{"tools/t.sh"}},
		"git-lfs":               {filter("git-lfs clean -- %f"), nil},
		"git-lfs process":       {filter("git-lfs filter-process"), nil},
		"less":                  {"[core]\n\tpager = less -FRX\n", nil},
		"vim":                   {"[core]\n\teditor = vim -c 'set tw=72'\n", nil},
		"sort":                  {filter("sort"), nil},
		"sed":                   {filter("sed -e 's/[0-9]*\\.x$/y/' -e '/^#/d'"), nil},
		"awk, git-crypt, jq":    {filter("\"git-crypt\" clean | awk '{print $1}' | jq '{a: .b[0]}' | tr '[0-9]'"), nil},
		"python":                {filter("python3 -m nbstripout"), nil},
		"an absolute path":      {filter("/usr/bin/sign --x=/etc/t.sh"), nil},
		"a person's own":        {"[alias]\n\tx = !./sign\n", nil},
		"a name":                {"[user]\n\tname = tools\n[branch \"x\"]\n\tmerge = ./sign\n", nil},
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "tools/monitor": "a\n", "way": "-> tools"})
			tree := acquire(t, workspace.Options{Dir: repo})
			o := finished(t, repo, tree, func(dir string) {
				gittest.Write(t, dir, map[string]string{"a.txt": "b\n", "sign": "id\n", "shared.inc": "[core]\n",
					"tools/monitor": "id\n", "tools/lib/x.sh": "id\n", "tools/t.sh": "id\n", "tools/b c.sh": "id\n",
					"docs/clean": "c\n", "docs/less": "c\n", "docs/sort": "c\n"})
			})
			before := gittest.Run(t, repo, "cat", ".git/config")
			gittest.Write(t, repo, map[string]string{".git/config": before + tt.config})
			var asked []string
			options := ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects, Warnings: o.Diff.Warnings,
				Confirm: func(files []workspace.Warning) error {
					for _, w := range files {
						asked = append(asked, w.Path)
					}
					return errors.New("no")
				}}
			_, err := Apply(t.Context(), options)
			if !slices.Equal(asked, tt.executed) || (err == nil) != (tt.executed == nil) {
				t.Errorf("apply asks about %q and ends with %v, want %q", asked, err, tt.executed)
			}
			if tt.executed == nil {
				return
			}
			asked, o.Confirm = nil, options.Confirm
			if _, err := Checkout(t.Context(), o); err == nil || !slices.Equal(asked, tt.executed) {
				t.Errorf("checkout asks about %q and ends with %v, want %q", asked, err, tt.executed)
			}
		})
	}
}
