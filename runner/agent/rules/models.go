package rules

import "slices"

// FallbackModels are the models that are asked when model fails, in order: those that are configured, whoever chose
// model.
func FallbackModels(model string, configured []string) []string {
	return slices.DeleteFunc(slices.Clone(configured), func(ref string) bool { return ref == model })
}
