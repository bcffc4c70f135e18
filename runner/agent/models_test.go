package agent_test

import (
	"slices"
	"testing"

	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/test/expect"
)

// What is configured to be asked when a model fails is asked whoever chose the model, and the agent says which model
// answered.
func TestFallbacks(t *testing.T) {
	t.Parallel()
	l := newLab(t, `
rounds:
  - cases:
      - {when: {user: {contains: well}}, text: here}
      - {error: {status: 400, message: "no such model"}}
`)
	const first, second = "scripted/scenario.yaml", "scripted/demo"
	l.fallback = []string{second}
	l.start()
	defer l.end()
	told := func() (m view.ModelState) {
		t.Helper()
		err := l.store.View(t.Context(), func(v ledger.View) (err error) {
			m, err = view.New(v, view.Facts{Model: first, Fallbacks: l.fallback}).Model("main")
			return err
		})
		expect.NoError(t, err)
		return m
	}
	ask := func(want ledger.EntryStatus) { // the fallback answers all rounds: what failed fast is not asked again
		t.Helper()
		l.untilStatus(l.prompt("work", "", ""), want)
	}
	expect := func(when, active string, fallbackActive bool, fallbacks ...string) {
		t.Helper()
		m := told()
		if m.ActiveModel != active || m.FallbackActive != fallbackActive ||
			!slices.Equal(m.EffectiveFallbackModels, fallbacks) {
			t.Errorf("%s: active %q, fallback active %v, fallbacks %q, want %q, %v and %q", when, m.ActiveModel,
				m.FallbackActive, m.EffectiveFallbackModels, active, fallbackActive, fallbacks)
		}
	}
	l.untilStatus(l.prompt("well", "", ""), ledger.Processed)
	expect("the first model answered", first, false, second)
	ask(ledger.Processed)
	expect("the default failed", second, true, second)

	if _, err := l.runtime.Scheduler().SetModel(t.Context(), "main", "scripted/another.yaml", ""); err != nil {
		t.Fatal(err)
	}
	ask(ledger.Processed)
	expect("the model of the agent failed", second, true, second)

	if _, err := l.runtime.Scheduler().SetModel(t.Context(), "main", second, ""); err != nil {
		t.Fatal(err)
	}
	ask(ledger.Aborted)
	expect("the model of the agent is its own fallback", "", false)
}
