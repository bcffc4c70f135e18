package pool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"holon/runner/engine"
	"holon/runner/pool"
)

// After any sequence of things that happen to the container of an agent and to its pool between turns,
// the conversation goes on, and the agent has at most one
// container. The seed of a failure is in its name.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		steps := 40
		if testing.Short() {
			steps = 12
		}
		var b strings.Builder
		b.WriteString("turns:\n")
		for i := range steps {
			fmt.Fprintf(&b, "  - rounds: [{text: turn %d}]\n", i)
		}
		l := newLab(t, "docker", b.String())
		w := &walk{conversation: conversation{lab: l, pool: pool.New(l.options()), agent: l.agent("ada")},
			rand: rand.New(rand.NewPCG(seed, 0))}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := w.pool.Close(ctx); err != nil {
				t.Error(err)
			}
		}()
		for range steps {
			w.step()
			if list := l.containers(); len(list) > 1 {
				t.Fatalf("%s: %d containers", w.trace, len(list))
			}
		}
	})
}

// walk does one thing after another to an agent.
type walk struct {
	conversation
	rand  *rand.Rand
	said  int
	trace []string
}

func (w *walk) step() {
	names := []string{"turn", "turn", "rest", "rest", "sweep", "stop", "image", "leave", "engine pauses",
		"engine removes", "engine stops"}
	name := names[w.rand.IntN(len(names))]
	w.trace = append(w.trace, name)
	list := w.containers()
	var err error
	switch name {
	case "turn":
		want := fmt.Sprintf("turn %d", w.said)
		w.said++
		w.say(want)
	case "rest":
		w.clock.pass(time.Minute + time.Second)
		err = w.pool.Sweep(w.t.Context())
	case "sweep":
		w.clock.pass(15*time.Minute + time.Second)
		err = w.pool.Sweep(w.t.Context())
	case "stop":
		err = w.pool.Stop(w.t.Context(), w.agent)
	case "image":
		w.image = []string{image, imageToo}[w.rand.IntN(2)]
	case "leave":
		err = w.pool.Leave(w.t.Context())
		w.pool = pool.New(w.options())
	default:
		if len(list) == 1 {
			err = w.harm(name, list[0])
		}
	}
	if err != nil {
		w.t.Fatalf("%s: %v", w.trace, err)
	}
}

// harm does something to the container that the pool is not told of.
func (w *walk) harm(name string, c engine.Summary) error {
	switch {
	case name == "engine removes":
		return w.engine.Remove(w.t.Context(), c.Handle)
	case name == "engine stops":
		return w.engine.Stop(w.t.Context(), c.Handle, 0)
	case c.Status == engine.StatusRunning:
		return w.engine.(engine.Pauser).Pause(w.t.Context(), c.Handle)
	}
	return nil
}
