package patch

import (
	"strconv"

	"holon/agentd/tools"
)

// modes takes git's modes of a file into f. Only regular files pass, executable or not; other permission bits are
// ignored.
func (p *parser) modes(f *filePatch, ext extended) *tools.Error {
	for _, mode := range append(ext.others, ext.mode) {
		if bad := f.ordinary(mode); bad != nil {
			return bad
		}
	}
	f.newMode = ext.mode
	if n, _ := strconv.ParseUint(ext.mode, 8, 32); ext.mode != "" && n != 0o100644 && n != 0o100755 {
		p.ignore(f.path, "mode", ext.mode)
		f.newMode = "100644"
		if n&0o100 != 0 {
			f.newMode = "100755"
		}
	}
	return nil
}

// ordinary refuses modes of what is not a regular file. An empty mode passes.
func (f *filePatch) ordinary(mode string) *tools.Error {
	n, err := strconv.ParseUint(mode, 8, 32)
	why, hint := "", "use 100644, or 100755 for an executable file"
	switch {
	case mode == "":
		return nil
	case err != nil:
		return syntax(f.line, "the mode "+strconv.Quote(tools.Clip(mode, 40))+" is not known", hint)
	case n&0o170000 == 0o120000:
		why, hint = "is or would be a symbolic link", "change symbolic links with a command"
	case n&0o170000 == 0o160000:
		why, hint = "is or would be a submodule", "change submodules with git commands"
	case n&^0o777 != 0o100000:
		why = "would not be an ordinary file, by its mode " + mode
	default:
		return nil
	}
	e := f.refused(kindUnsafePath, f.path, visible(f.path)+" "+why, hint)
	e.Details["mode"] = tools.Clip(mode, 40)
	return e
}
