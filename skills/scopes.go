package skills

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"holon/internal/roots"
)

// Scope says whom a skill belongs to.
type Scope string

// The scopes (runtime specification, "Skill Discovery And Activation Contract").
const (
	scopeUser      Scope = "user"
	scopeAgent     Scope = "agent"
	scopeWorkspace Scope = "workspace"
)

// Role says which agent looks: it decides which scopes it sees.
type Role string

// The roles. Only the default agent sees the user's skills.
const (
	RoleDefault Role = "default"
	RoleNamed   Role = "named"
	RoleChild   Role = "child"
)

// Known reports whether r is one of the roles.
func (r Role) Known() bool { return r == RoleDefault || r == RoleNamed || r == RoleChild }

// Roots say where skills are looked for. An empty path has none.
type Roots struct {
	Role        Role
	UserHome    string // the user's home directory
	AgentSkills string // skills that the agent was given, in addition to those of its home
	AgentHome   string
	Workspace   string // the top of the working tree
}

// The folders of each scope. Of those of a home or a working tree, the first that exists is the only one.
var (
	userFolders      = []string{".agents/skills", ".codex/skills", ".claude/skills"}
	agentFolders     = []string{"skills", ".agents/skills", ".codex/skills", ".claude/skills"}
	workspaceFolders = userFolders
)

// scopeRoot is the folder that a scope's skills come from.
type scopeRoot struct {
	Scope Scope
	Path  string
}

// Catalog is what was found: the root of each scope that has one, the skills by
// scope and name, and what is wrong with others.
type Catalog struct {
	Roots    []scopeRoot
	Skills   []Skill
	Problems []InvalidSkill
}

// Discover finds the skills that the role may see, in the order user, agent,
// workspace. Skills of one name in two scopes are two skills.
func (r Roots) Discover() Catalog {
	var c Catalog
	if r.UserHome != "" && r.Role == RoleDefault {
		c = first(scopeUser, under(r.UserHome, userFolders))
	}
	return c.With(r.discoverAgent()).With(r.discoverWorkspace())
}

// discoverAgent finds the skills of AgentSkills and of AgentHome. Of two that have the same name, the first counts.
func (r Roots) discoverAgent() Catalog {
	var given, own Catalog
	if r.AgentSkills != "" {
		given = first(scopeAgent, []string{r.AgentSkills})
	}
	if r.AgentHome != "" {
		own = first(scopeAgent, under(r.AgentHome, agentFolders))
	}
	if len(own.Roots) == 0 || len(given.Roots) > 0 && given.Roots[0] == own.Roots[0] {
		return given
	}
	names := given.Names()
	own.Skills = slices.DeleteFunc(own.Skills, func(s Skill) bool {
		known := slices.Contains(names, s.Name)
		if known {
			own.Problems = append(own.Problems, InvalidSkill{Code: codeDuplicate, Path: s.Path, Field: "name",
				Message: fmt.Sprintf("there is a skill %q in %s", s.Name, r.AgentSkills), Hint: "name each skill once"})
		}
		return known
	})
	return given.With(own)
}

// discoverWorkspace finds the skills of the working tree. It reads nothing outside
// the tree, even through links.
func (r Roots) discoverWorkspace() Catalog {
	if r.Workspace == "" {
		return Catalog{}
	}
	tree, err := roots.Open(r.Workspace)
	if err != nil {
		return Catalog{} // a turn may have no working tree
	}
	defer tree.Close()
	for _, folder := range workspaceFolders {
		if _, err := tree.Lstat(folder); absent(err) {
			continue
		}
		path := filepath.Join(r.Workspace, folder)
		dir, err := roots.OpenIn(tree, folder)
		c := Catalog{Roots: []scopeRoot{{scopeWorkspace, path}}}
		if err != nil {
			c.Problems = []InvalidSkill{{Code: codeUnsafe, Path: path,
				Message: "it is not a folder within the working tree",
				Hint:    "replace it by a folder, or remove it", Err: err}}
			return c
		}
		c.Skills, c.Problems = discover(dir, path)
		_ = dir.Close() // it was read only
		return c.mark(scopeWorkspace)
	}
	return Catalog{}
}

// first returns what the first folder that exists holds.
func first(scope Scope, folders []string) Catalog {
	for _, folder := range folders {
		if _, err := os.Stat(folder); absent(err) {
			continue
		}
		c := Catalog{Roots: []scopeRoot{{scope, folder}}}
		c.Skills, c.Problems = discoverIn(folder)
		return c.mark(scope)
	}
	return Catalog{}
}

// absent reports whether err says that the folder does not exist.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func under(dir string, folders []string) []string {
	paths := make([]string, len(folders))
	for i, folder := range folders {
		paths[i] = filepath.Join(dir, folder)
	}
	return paths
}

func (c Catalog) mark(scope Scope) Catalog {
	for i := range c.Skills {
		c.Skills[i].Scope = scope
	}
	return c
}

// With returns c and more in one catalogue, and changes neither.
func (c Catalog) With(more Catalog) Catalog {
	return Catalog{slices.Concat(c.Roots, more.Roots), slices.Concat(c.Skills, more.Skills),
		slices.Concat(c.Problems, more.Problems)}
}

// IDs returns the ids of the skills in the order found.
func (c Catalog) IDs() []string {
	ids := make([]string, len(c.Skills))
	for i, skill := range c.Skills {
		ids[i] = skill.ID()
	}
	return ids
}

// Names returns the names of the skills, each once, in the order found.
func (c Catalog) Names() []string {
	names := make([]string, 0, len(c.Skills))
	for _, skill := range c.Skills {
		if !slices.Contains(names, skill.Name) {
			names = append(names, skill.Name)
		}
	}
	return names
}
