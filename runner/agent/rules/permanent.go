package rules

import "holon/state"

// permanent are the codes of failures that last until a setting or the machine changes: a model that cannot be asked, a
// scenario that cannot be played, an image that does not exist or cannot run agentd, a container that cannot be made as
// it is described. Those of packages that run containers stand as words, since no rule depends on these packages.
var permanent = map[state.Code]bool{
	"unknown_provider": true, "unsupported_contract": true, "invalid_reference": true, "invalid_provider": true,
	"scenario_missing": true, "scenario_invalid": true, "scenario_not_found": true,
	"missing_credentials": true, "invalid_credential": true, "credentials_exposed": true,
	"credential_profile_unknown": true, "no_price": true,
	"image_not_found": true, "cannot_run": true, "invalid_spec": true,
}

// Permanent reports whether what failed with a code will fail again, however long one waits.
func Permanent(code state.Code) bool { return permanent[code] }
