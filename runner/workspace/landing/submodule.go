package landing

import (
	"holon/internal/visible"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
)

// addModule makes the submodule's objects available to the merge and its files part of the index.
func (m *merge) addModule(s workspace.SubmoduleChange) error {
	err := git.CheckPath(s.Path)
	if err == nil && m.user != nil {
		if layout := m.user.Submodule(s.Path); layout != nil {
			m.modules = append(m.modules, s.Path)
			m.repo.Alternates = append(m.repo.Alternates, layout.Objects)
			return nil
		}
	}
	return &git.Error{Code: CodePatchConflict, Param: s.Path, Paths: []string{s.Path}, Err: err,
		Message: "the patch changes files within the submodule " + visible.Quoted(s.Path) + ", which is not checked out in " +
			m.top,
		Hint: m.remedy("check it out with git submodule update --init")}
}
