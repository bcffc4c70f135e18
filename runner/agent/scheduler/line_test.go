package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"holon/state/ledger"
)

// A queue that is followed is the queue that would be read.
func TestLine(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	senders := []ledger.Sender{ledger.FromOperator, ledger.FromTask, ledger.FromSelf}
	known := 0
	for range 200 {
		var queue []ledger.Entry // in its order
		followed := new(line)
		for n := range int64(20) {
			if len(queue) > 0 && r.IntN(2) == 0 {
				at := r.IntN(len(queue))
				followed = followed.without(queue[at])
				queue = slices.Delete(queue, at, at+1)
			} else {
				e := ledger.Entry{MessageID: fmt.Sprint(n), Number: n, Sender: senders[r.IntN(3)], Priority: ledger.Normal}
				if r.IntN(4) == 0 {
					e.Priority = ledger.Interject
				}
				if r.IntN(4) == 0 {
					e.Block()
				}
				followed, queue = followed.with(e), append(queue, e)
			}
			slices.SortFunc(queue, func(a, b ledger.Entry) int {
				return (a.Band()-b.Band())*1000 + int(a.Number-b.Number)
			})
			read := line{count: len(queue)}
			if len(queue) > 0 {
				read.head = queue[0]
			}
			if followed == nil {
				followed = &read
				continue
			}
			known++
			if followed.count != read.count || followed.head.MessageID != read.head.MessageID {
				t.Fatalf("followed %d, %q, read %d, %q", followed.count, followed.head.MessageID, read.count,
					read.head.MessageID)
			}
		}
	}
	if known < 1000 {
		t.Errorf("%d of the queues were known without a read", known)
	}
}
