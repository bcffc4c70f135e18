package patch

import (
	"strconv"

	"holon/agentd/tools"
)

// modes takes git's modes of a file into f. Only regular files pass, executable or not; other permission bits are
// ignored.
func (p *parser) modes(f *filePatch, ext extended) *tools.Error {
	for _, mode := range append(ext.others, ext.mode) {
		refuse := func(why, hint string) *tools.Error {
			return &tools.Error{Kind: kindUnsafePath, Message: visible(f.path) + " " + why,
				Details:      map[string]any{"path": f.path, "mode": tools.Clip(mode, 40), "patch_line": f.line},
				RecoveryHint: hint}
		}
		if mode == "" {
			continue
		}
		n, err := strconv.ParseUint(mode, 8, 32)
		switch {
		case err != nil:
			return syntax(f.line, "the mode "+strconv.Quote(tools.Clip(mode, 40))+" is not known",
				"use 100644, or 100755 for an executable file")
		case n&0o170000 == 0o120000:
			return refuse("is or would be a symbolic link", "change symbolic links with a command")
		case n&0o170000 == 0o160000:
			return refuse("is or would be a submodule", "change submodules with git commands")
		case n&^0o777 != 0o100000:
			return refuse("would not be an ordinary file, by its mode "+mode,
				"use 100644, or 100755 for an executable file")
		}
	}
	switch ext.mode {
	case "", "100644", "100755":
		f.newMode = ext.mode
	default:
		p.ignore(f.path, "mode", ext.mode)
		f.newMode = "100644"
		if n, _ := strconv.ParseUint(ext.mode, 8, 32); n&0o100 != 0 {
			f.newMode = "100755"
		}
	}
	return nil
}
