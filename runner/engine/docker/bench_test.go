package docker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"holon/runner/engine"
)

// BenchmarkColdStart compares, in turn, create and start of a hardened
// container with those of a bare one (network none and nothing else), and
// SIGTERM to removed. Medians, and the ratio of the medians.
func BenchmarkColdStart(b *testing.B) {
	e := connect(b)
	ref := suiteImage(b, e)
	var ours, bare, stop, bareStop []time.Duration
	for i := 0; b.Loop(); i++ {
		spec := faultSpec(ref)
		start := time.Now()
		h, err := e.Create(b.Context(), spec)
		if err == nil {
			err = e.Start(b.Context(), h)
		}
		if err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(start))
		stop = append(stop, end(b, e, h))

		start = time.Now()
		created, err := e.api.ContainerCreate(b.Context(),
			&container.Config{Image: ref, Entrypoint: []string{"/probe", "serve"}, StopSignal: "SIGTERM"},
			&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
		if err == nil {
			err = e.api.ContainerStart(b.Context(), created.ID, container.StartOptions{})
		}
		if err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(start))
		bareStop = append(bareStop, end(b, e,
			engine.Handle{Version: engine.HandleVersion, Engine: name, ID: created.ID,
				Name: fmt.Sprintf("bare-%d", i)}))
	}
	b.ReportMetric(ms(ours), "start-ms")
	b.ReportMetric(ms(bare), "bare-start-ms")
	b.ReportMetric(ms(ours)/ms(bare), "start-ratio")
	b.ReportMetric(ms(stop), "stop-ms")
	b.ReportMetric(ms(stop)/ms(bareStop), "stop-ratio")
}

func end(b *testing.B, e *Engine, h engine.Handle) time.Duration {
	b.Helper()
	time.Sleep(50 * time.Millisecond) // let the program reach its signal handler
	start := time.Now()
	if err := e.Stop(b.Context(), h, time.Minute); err != nil {
		b.Fatal(err)
	}
	if err := e.Remove(b.Context(), h); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func ms(durations []time.Duration) float64 {
	slices.Sort(durations)
	return float64(durations[len(durations)/2].Microseconds()) / 1000
}
