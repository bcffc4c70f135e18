package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/responses"
)

// The id of a private child is that of its parent, a dot and childSuffix characters. No agent of an operator has a dot
// in its id.
const (
	ChildMark   = "."
	childSuffix = 6
	MaxDepth    = 2 // levels of children below a public agent
)

// ChildID is the id of a child of parent that has the name, of childSuffix lower-case letters and digits.
func ChildID(parent, name string) string { return parent + ChildMark + name[:childSuffix] }

// SessionID is the id by which agentd and the record know the conversation of an agent. It has no dots, which agentd
// does not take.
func SessionID(agentID string) string {
	return responses.PrefixSession + strings.ReplaceAll(agentID, ChildMark, "__")
}

// RootAgent is the id of the public agent in whose tree an agent is, which may be that agent itself.
func RootAgent(id string) string {
	root, _, _ := strings.Cut(id, ChildMark)
	return root
}

// IsChild reports whether an id has the form of that of a private child.
func IsChild(id string) bool {
	names := strings.Split(id, ChildMark)
	if names[0] == "" || len(names) < 2 || len(names) > MaxDepth+1 {
		return false
	}
	for _, name := range names[1:] {
		if len(name) != childSuffix || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return false
		}
	}
	return true
}

// AgentDepth is how many levels below its public agent an agent is.
func AgentDepth(id string) int { return strings.Count(id, ChildMark) }

// childrenDir is where the homes of the children of a public agent are, which no container of an agent sees.
func (h Home) childrenDir(root string) string {
	return filepath.Join(h.AgentPrivateDir(root), "children")
}

// AgentIDs lists the agents that have a directory in the home: public ones, and their children.
func (h Home) AgentIDs() (ids []string, err error) {
	roots, err := names(h.AgentsDir())
	for _, root := range roots {
		if CheckAgentID(root) != nil || IsChild(root) {
			continue
		}
		ids = append(ids, root)
		children, failed := names(h.childrenDir(root))
		err = errors.Join(err, failed)
		for _, id := range children {
			if IsChild(id) && RootAgent(id) == root && CheckAgentID(id) == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids, err
}

// names are those of the entries of a directory, none where there is no directory.
func names(dir string) (list []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return list, err
}
