package agentd

import "runtime/debug"

// version is set by the build: -ldflags "-X holon/agentd.version=v1.2.3".
var version string

// Version returns the version of this build: what the linker was told, else the
// module's version or commit, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
