package deliver_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"holon/state/ledger"
	"holon/test/expect"
)

// childEnv is the home of the process that a test kills, and clockEnv how far its clock is ahead, so that no back-off
// is waited for.
const (
	childEnv = "HOLON_TEST_DELIVER"
	clockEnv = "HOLON_TEST_DELIVER_CLOCK"
)

// runChild delivers what is pending, then ends.
func runChild(home string) int {
	ahead, err := strconv.Atoi(os.Getenv(clockEnv))
	if err != nil {
		return 2
	}
	w := &world{home: home}
	w.openIn(func() time.Time { return time.Now().Add(time.Duration(ahead) * time.Hour) }, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	for {
		changed := w.store.Changed("")
		pending := 0
		err := w.store.View(ctx, func(v ledger.View) error {
			list, err := v.Deliveries("main", 0)
			for _, d := range list {
				if d.Status == ledger.DeliveryPending {
					pending++
				}
			}
			return err
		})
		if err != nil || pending == 0 {
			cancel()
			running.Wait()
			_ = w.store.Close()
			return 0
		}
		<-changed
	}
}

// holon is killed before and after a receiver has answered, again and again. A receiver that honours the idempotency
// key accepts each notification exactly once, and the record has it as accepted.
func TestKilledBetweenSubmitAndRecord(t *testing.T) {
	const notifications = 5
	w := open(t, nil)
	var mu sync.Mutex
	var child *os.Process
	accepted, requests := map[string]int{}, map[string]int{}
	kill := func() {
		mu.Lock()
		defer mu.Unlock()
		if child != nil {
			_ = child.Signal(syscall.SIGKILL)
		}
	}
	x := receive(t, func(_ int, rw http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		mu.Lock()
		requests[key]++
		n := requests[key]
		if n == 1 {
			accepted[key]++ // what comes again under the key is not accepted again
		}
		mu.Unlock()
		switch n {
		case 1:
			kill() // before it has the answer
		case 2:
			rw.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(rw).Flush()
			kill() // when it may have the answer
		}
	})
	for i := range 2 {
		w.bind(webhook(fmt.Sprint("receiver", i), x.URL))
	}
	for i := range notifications {
		w.notify("main", fmt.Sprint("notification ", i))
	}
	expect.NoError(t, w.store.Close())
	for start := 1; ; start++ {
		if start > 10*notifications {
			t.Fatal("not everything is delivered after so many starts")
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+w.home, clockEnv+"="+strconv.Itoa(24*start))
		mu.Lock()
		expect.NoError(t, cmd.Start())
		child = cmd.Process
		mu.Unlock()
		err := cmd.Wait()
		mu.Lock()
		child = nil
		mu.Unlock()
		if err == nil {
			break
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Fatalf("the process ended by itself: %v", err)
		}
	}
	w.openIn(time.Now, nil)
	expect.Equal(t, "keys", len(accepted), 2*notifications)
	for _, d := range w.deliveries("main") {
		expect.Equal(t, "status", d.Status, ledger.DeliveryAccepted)
		expect.Equal(t, "accepted", accepted[d.ID], 1)
		if requests[d.ID] < 2 {
			t.Errorf("%s was requested %d times: no kill was before its record", d.ID, requests[d.ID])
		}
	}
}
