package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/state"
	"holon/state/store"
	"holon/test/buckettest"
	"holon/test/expect"
	"holon/test/load"
	"holon/test/postgrestest"
	"holon/test/programs"
)

// While the bucket cannot be written, a turn that has ended waits, and the daemon's status has the reason; afterwards it
// is saved and settled, and nothing of it ran twice.
func TestBucketWeather(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: a daemon with containers, a database and a bucket")
	}
	expect.NoError(t, needEngine(t.Context()))
	url, bucket := postgrestest.New(t).Database(t), buckettest.New(t)
	proxy := bucket.Proxy(t)
	dir, err := os.MkdirTemp("", "bw")
	expect.NoError(t, err)
	s, err := load.New(load.Options{Dir: dir, Script: []byte(tour), Env: append(bucket.Env(), "HOLON_LEDGER="+url,
		"HOLON_STORE="+proxy.URL())})
	expect.NoError(t, err)
	t.Cleanup(func() {
		s.Close()
		_ = errors.Join(load.RemoveContainers(s.Home), os.RemoveAll(dir))
	})
	expect.NoError(t, s.Start(t.Context()))
	ran := ""
	for n, bad := range []struct {
		weather     buckettest.Weather
		code        state.Code
		says, wrote string
	}{
		{buckettest.Full, store.CodeFull, "first", "one\n"},
		{buckettest.Denied, store.CodeDenied, "second", "two\n"},
	} {
		proxy.Set(bad.weather)
		message := prompted(t, s, fmt.Sprint(n))
		expect.NoError(t, load.Eventually(t.Context(), load.Patience, func() error {
			cmd := exec.CommandContext(t.Context(), programs.Must("holon"), "daemon", "status", "--json")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "HOLON_HOME=" + s.Home}
			out, _ := cmd.CombinedOutput() // it is an error that it does not run well
			if !strings.Contains(string(out), `"`+string(bad.code)+`"`) {
				return fmt.Errorf("the status of the daemon lacks %s: %s", bad.code, out)
			}
			return nil
		}))
		m, err := s.Client.Message(t.Context(), "main", message)
		expect.NoError(t, err)
		if m.Turn != nil {
			t.Errorf("a turn that is not saved is settled: %+v", m.Turn)
		}
		proxy.Set(buckettest.Fair)
		processed(t, s, message, bad.says)
		ran += bad.wrote
		text, err := os.ReadFile(filepath.Join(s.Home, "agents", "main", "ran"))
		expect.NoError(t, err)
		expect.Equal(t, "what ran", string(text), ran)
	}
}
