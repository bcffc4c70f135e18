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

type skillOptions struct {
	source, ref, path, digest string
	update                    bool
}

// Bounds of what is fetched for one skill.
const (
	maxSkillFiles = 4096
	maxSkillBytes = 128 << 20
	maxSkillPack  = 1 << 30
)

func newSkillsCommand(streams Streams) *cobra.Command {
	o := &skillOptions{}
	install := skillCommand(streams, "install SOURCE", "Install a skill from a folder or a git repository",
		func(ctx context.Context, l *lifecycle) error {
			o.source = l.args[0]
			return runSkillsInstall(ctx, l, o)
		})
	install.Long = `Install a skill and pin the digest of its files. SOURCE is a folder, the URL of a
git repository (https, ssh or file), or a folder on GitHub as
https://github.com/OWNER/REPO/tree/REF/PATH.

A skill that is installed already must be the same, unless --update is given.`
	f := install.Flags()
	f.StringVar(&o.ref, "ref", "",
		"`branch`, tag or commit of the repository (default its own default branch)")
	f.StringVar(&o.path, "path", "", "`directory` of the skill in the repository")
	f.StringVar(&o.digest, "digest", "", "refuse anything but this `digest` (sha256:…)")
	f.BoolVar(&o.update, "update", false, "replace what is installed, and pin the new digest")
	return group("skills", "Install skills, and see what is installed",
		`Skills are folders with a SKILL.md that teach an agent how to do one kind of task.
An installed skill is pinned: a run refuses it when its files are not those that
were installed. Give it to a run with "holon run --skill NAME".`, install,
		tableCommand(skillCommand(streams, "list", "List the installed skills", runSkillsList), streams),
		skillCommand(streams, "remove NAME", "Remove an installed skill", runSkillsRemove))
}

func skillCommand(streams Streams, use, short string, do func(context.Context, *lifecycle) error) *cobra.Command {
	return lifecycleCommand(streams, use, short, func(ctx context.Context, l *lifecycle) error {
		return skillError(do(ctx, l))
	})
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

func runSkillsInstall(ctx context.Context, l *lifecycle, o *skillOptions) error {
	if o.digest != "" && !strings.HasPrefix(o.digest, "sha256:") {
		return usage("--digest", "it is not sha256:…", "give what holon skills list shows")
	}
	home, err := state.MakeHome(l.Home, l.UserHome)
	if err != nil {
		return err
	}
	in := skills.Install{Folder: o.source, Update: o.update, Now: time.Now(),
		Pin: skills.Pin{Source: o.source, Digest: o.digest}}
	if fetch.IsURL(o.source) {
		dir, err := os.MkdirTemp(home.CacheDir(), "skill-")
		if err != nil {
			return fmt.Errorf("fetch the skill: %w", err)
		}
		defer os.RemoveAll(dir)
		if err := fetchSkill(ctx, o, filepath.Join(dir, "files"), &in); err != nil {
			return err
		}
	} else if o.ref != "" {
		return usage("--ref", "a folder has no refs", "leave it out, or give the URL of a repository")
	} else if o.path != "" {
		return usage("--path", "is for a repository", "name the folder itself as SOURCE")
	} else if in.Folder, err = filepath.Abs(o.source); err != nil {
		return usage("SOURCE", err.Error(), "name a folder")
	}
	in.Pin.Source = visible.OneLine(in.Pin.Source, 2048)
	pin, err := skills.NewStore(home.SkillsDir()).Install(ctx, in)
	return l.showFacts(pin, err, "installed", pin.Name, "digest", pin.Digest)
}

// fetchSkill gets the skill's folder from a repository.
func fetchSkill(ctx context.Context, o *skillOptions, dir string, in *skills.Install) error {
	source, err := fetch.Parse(o.source, o.ref, o.path)
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

// fetchDirectory gets the directory of a repository that a URL names, with the bounds of a skill.
func fetchDirectory(ctx context.Context, url, dir string) error {
	source, err := fetch.Parse(url, "", "")
	if err == nil {
		_, err = source.Fetch(ctx, fetch.Options{Dir: dir, Files: maxSkillFiles, Bytes: maxSkillBytes, Pack: maxSkillPack})
	}
	return err
}

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

func runSkillsList(_ context.Context, l *lifecycle) error {
	list, err := skills.NewStore(l.home.SkillsDir()).List()
	return showList(&l.base, list, err, []string{"SKILL", "STATE", "DIGEST", "SOURCE"},
		func(s skills.Installed) []string {
			return []string{s.Name, string(s.State), s.Digest[:min(19, len(s.Digest))], s.Source}
		})
}

func runSkillsRemove(_ context.Context, l *lifecycle) error {
	name := l.args[0]
	err := skills.NewStore(l.home.SkillsDir()).Remove(name)
	return l.showFacts(map[string]string{"removed": name}, err, "removed", name)
}

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
		return skill, nil // what is wrong with a folder is reported when it is read
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
