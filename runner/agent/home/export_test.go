package home

// DigestOf is the digest of a template that is an AGENTS.md alone.
func DigestOf(agents string) string { return (&template{agents: []byte(agents)}).digest() }

// ParseManifest reads a skills.json.
var ParseManifest = parseManifest

// PlanError says why a file is not read.
var PlanError = planError

// MaxNames is how many names are tried for a file.
const MaxNames = maxNames
