package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/workspace/fetch"
	"holon/runner/workspace/git"
	"holon/skills"
	"holon/state"
)

// skillOptions are what a command of `holon skills` was asked to do.
type skillOptions struct {
	streams Streams
	host
	Source string // or the name
	Ref    string
	Path   string
	Digest string
	Update bool
	JSON   bool
}

// Bounds of what is fetched for one skill.
const (
	maxSkillFiles = 4096
	maxSkillBytes = 128 << 20
	maxSkillPack  = 1 << 30
)

// newSkillsCommand makes `holon skills`.
func newSkillsCommand(streams Streams) *cobra.Command {
	install, opts := skillCommand(streams,
		"install SOURCE", "Install a skill from a folder or a git repository", 1,
		runSkillsInstall)
	install.Long = `Install a skill and pin the digest of its files. SOURCE is a folder, the URL of a
git repository (https, ssh or file), or a folder on GitHub as
https://github.com/OWNER/REPO/tree/REF/PATH.

A skill that is installed already must be the same, unless --update is given.`
	f := install.Flags()
	f.SortFlags = false
	f.StringVar(&opts.Ref, "ref", "",
		"`branch`, tag or commit of the repository (default its own default branch)")
	f.StringVar(&opts.Path, "path", "", "`directory` of the skill in the repository")
	f.StringVar(&opts.Digest, "digest", "", "refuse anything but this `digest` (sha256:…)")
	f.BoolVar(&opts.Update, "update", false, "replace what is installed, and pin the new digest")
	list, _ := skillCommand(streams, "list", "List the installed skills", 0, runSkillsList)
	remove, _ := skillCommand(streams, "remove NAME", "Remove an installed skill", 1, runSkillsRemove)
	return group("skills", "Install skills, and see what is installed",
		`Skills are folders with a SKILL.md that tell an agent how to do one kind of task.
An installed skill is pinned: a run refuses it when its files are not those that
were installed. Give it to a run with "holon run --skill NAME".`, install, tableCommand(list, streams), remove)
}

// skillCommand makes a command of `holon skills` with n arguments.
func skillCommand(streams Streams, use, short string, n int,
	do func(context.Context, *skillOptions) error) (*cobra.Command, *skillOptions) {
	opts := &skillOptions{streams: streams}
	cmd := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		if err := countArgs(cmd, args, n, n); err != nil {
			return err
		}
		if n == 1 {
			opts.Source = args[0]
		}
		err := opts.host.fromEnv()
		if err == nil {
			err = do(cmd.Context(), opts)
		}
		return skillError(err)
	}}
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print the result as JSON")
	return cmd, opts
}

// skillError names the argument at fault where a package below speaks of paths.
func skillError(err error) error {
	problem, ok := errors.AsType[*skills.InvalidSkill](err)
	if ok {
		return usage("SKILL", problem.Error(), problem.Hint)
	}
	if e, ok := errors.AsType[*git.Error](err); ok {
		param := e.Param
		if param != "SOURCE" && !strings.HasPrefix(param, "--") {
			param = "SOURCE"
		}
		message := e.Message
		if e.Err != nil {
			message += ": " + e.Err.Error()
		}
		if e.Code == git.CodeInvalidOption {
			return usage(param, message, e.Hint)
		}
		return &runner.Error{Code: runner.Code(e.Code), Param: param, Message: message, Hint: cmp.Or(e.Hint,
			"look at the source")}
	}
	return err
}

func runSkillsInstall(ctx context.Context, o *skillOptions) error {
	if o.Digest != "" && !strings.HasPrefix(o.Digest, "sha256:") {
		return usage("--digest", "it is not sha256:…", "give what holon skills list shows")
	}
	home, err := state.MakeHome(o.Home, o.UserHome)
	if err != nil {
		return err
	}
	in := skills.Install{Folder: o.Source, Update: o.Update, Now: time.Now(),
		Pin: skills.Pin{Source: o.Source, Digest: o.Digest}}
	if fetch.IsURL(o.Source) {
		dir, err := os.MkdirTemp(home.CacheDir(), "skill-")
		if err != nil {
			return fmt.Errorf("fetch the skill: %w", err)
		}
		defer os.RemoveAll(dir)
		if err := fetchSkill(ctx, o, filepath.Join(dir, "files"), &in); err != nil {
			return err
		}
	} else if o.Ref != "" {
		return usage("--ref", "a folder has no refs", "leave it out, or give the URL of a repository")
	} else if o.Path != "" {
		return usage("--path", "is for a repository", "name the folder itself as SOURCE")
	} else if in.Folder, err = filepath.Abs(o.Source); err != nil {
		return usage("SOURCE", err.Error(), "name a folder")
	}
	in.Pin.Source = visible.OneLine(in.Pin.Source, 2048)
	pin, err := skills.NewStore(home.SkillsDir()).Install(ctx, in)
	if err != nil {
		return err
	}
	if o.JSON {
		return printJSON(o.streams, pin)
	}
	return facts(o.streams, [2]string{"installed", pin.Name}, [2]string{"digest", pin.Digest})
}

// fetchSkill gets the skill's folder from a repository.
func fetchSkill(ctx context.Context, o *skillOptions, dir string, in *skills.Install) error {
	source, err := fetch.Parse(o.Source, o.Ref, o.Path)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("fetch the skill: %w", err)
	}
	got, err := source.Fetch(ctx, fetch.Options{Dir: dir, Files: maxSkillFiles, Bytes: maxSkillBytes,
		Pack: maxSkillPack})
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, skills.File)); err != nil {
		return usage("--path", fmt.Sprintf(
			"there is no %s in %s of the repository", skills.File, cmp.Or(visible.OneLine(got.Path, 200), "the top")),
			candidatesHint(got))
	}
	in.Folder, in.Pin.Commit, in.Pin.Path = dir, got.Commit, got.Path
	return nil
}

// candidatesHint names the folders that hold skills.
func candidatesHint(got *fetch.Result) string {
	var dirs []string
	for _, file := range got.Files {
		if dir, ok := strings.CutSuffix(file, "/"+skills.File); ok && len(dirs) < 10 {
			dirs = append(dirs, visible.OneLine(filepath.ToSlash(filepath.Join(got.Path, dir)), 100))
		}
	}
	if len(dirs) == 0 {
		return "give the folder of a skill"
	}
	return "there is one in " + strings.Join(dirs, ", ")
}

func runSkillsList(_ context.Context, o *skillOptions) error {
	home, err := state.FindHome(o.Home, o.UserHome)
	if err != nil {
		return err
	}
	list, err := skills.NewStore(home.SkillsDir()).List()
	if err != nil {
		return err
	}
	if o.JSON {
		if list == nil {
			list = []skills.Installed{}
		}
		return printJSON(o.streams, list)
	}
	t := newTable(o.streams, "SKILL", "STATE", "DIGEST", "SOURCE")
	for _, skill := range list {
		t.row(skill.Name, string(skill.State), skill.Digest[:min(19, len(skill.Digest))], skill.Source)
	}
	return t.end()
}

func runSkillsRemove(_ context.Context, o *skillOptions) error {
	home, err := state.FindHome(o.Home, o.UserHome)
	if err != nil {
		return err
	}
	if err := skills.NewStore(home.SkillsDir()).Remove(o.Source); err != nil {
		return err
	}
	if o.JSON {
		return printJSON(o.streams, map[string]string{"removed": o.Source})
	}
	return facts(o.streams, [2]string{"removed", o.Source})
}

// findSkills turns names of installed skills into their folders.
func (o *runOptions) findSkills() error {
	for i, skill := range o.Skills {
		dir, err := o.skillFolder(skill)
		if err != nil {
			return err
		}
		o.Skills[i] = dir
	}
	return nil
}

// skillFolder is the folder of a skill that is named in a setting: a folder, or an installed skill.
func (h *host) skillFolder(skill string) (string, error) {
	if _, err := os.Stat(skill); err == nil || strings.ContainsRune(skill, filepath.Separator) {
		return skill, nil // what is wrong with a folder is said when it is read
	}
	home, err := state.FindHome(h.Home, h.UserHome)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home.SkillsDir(), skill)
	if _, err := os.Stat(dir); err != nil || skill == "" || !filepath.IsLocal(skill) {
		return "", usage("--skill", fmt.Sprintf("%.80q is neither a folder nor an installed skill", skill),
			"holon skills list shows those that are installed")
	}
	return dir, nil
}
