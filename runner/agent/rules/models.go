package rules

import "slices"

// Efforts are those that a person can set for an agent, from the least on: models know some of them each.
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// FallbackModels are the models that are asked when model fails, in order: those that are configured, however model
// was chosen.
func FallbackModels(model string, configured []string) []string {
	return slices.DeleteFunc(slices.Clone(configured), func(ref string) bool { return ref == model })
}
