package doctor

import (
	"context"
	"fmt"
	"slices"

	"holon/internal/providers"
	"holon/runner/modelaccess"
)

// checkSettings is what is wrong with what is set. What it means for the models
// that a run would ask is reported by other checks.
func (e *examination) checkSettings(context.Context) (list []Result) {
	for _, f := range e.Providers.Doctor(e.Loaded) {
		if slices.Contains(e.Refs, f.Source) {
			continue
		}
		where := f.Source
		if f.Key != "" && f.Key != f.Source {
			where += ": " + f.Key
		}
		status := statusWarning
		if f.Level == modelaccess.Wrong {
			status = statusFailed
		}
		list = append(list, seen("%s: %s", where, f.Message).but(status, f.Hint))
	}
	if len(list) == 0 {
		return one(seen("nothing is wrong"))
	}
	return list
}

func (e *examination) modelChecks() []named {
	return []named{{"credentials", needsNothing, e.checkCredentials}, {"models", needsNothing, e.checkModels}}
}

// checkCredentials looks for the key of each model.
func (e *examination) checkCredentials(context.Context) (list []Result) {
	for _, ref := range e.Refs {
		list = append(list, e.checkCredential(ref))
	}
	return list
}

func (e *examination) checkCredential(ref string) Result {
	name, _, ok := providers.SplitRef(ref)
	switch {
	case !ok:
		return seen("%q is not a model reference", ref).but(statusFailed, "write provider/name")
	case name == providers.Scripted:
		return seen("%s needs no key", ref)
	}
	where, err := e.Providers.Ready(ref)
	if err != nil && !e.Chosen {
		return seen("no model is chosen, and there is no key for the default one, %s", ref).but(statusFailed,
			"store a key with: holon credentials set openai; or choose a model with: holon config set model.default "+
				"PROVIDER/NAME")
	}
	if err != nil {
		r := failed(err)
		r.Seen = ref + ": " + r.Seen
		return r
	}
	if text := where.String(); text != "none" {
		return seen("%s: the key is in %s", ref, text)
	}
	return seen("%s: the provider wants no key", ref)
}

// checkModels asks each model for a word, by the way that a run would.
func (e *examination) checkModels(ctx context.Context) (list []Result) {
	if e.Offline {
		return skipped("no provider was asked (--offline)")
	}
	for _, ref := range e.Refs {
		if name, _, _ := providers.SplitRef(ref); name == providers.Scripted {
			list = append(list, seen("%s: a scenario needs no provider", ref))
			continue
		}
		if r := e.checkCredential(ref); r.Status == statusFailed {
			list = append(list, seen("%s cannot be asked", ref).but(statusSkipped, ""))
			continue
		}
		c := e.Providers.Check(ctx, ref)
		if !c.OK {
			list = append(list, seen("%s: %s", ref,
				fmt.Sprintf("%s: %s", c.Error.Code, c.Error.Message)).but(statusFailed,
				c.Error.Hint))
			continue
		}
		list = append(list, seen("%s answered within %d ms", ref, c.LatencyMS))
	}
	return list
}
