package deliver

import (
	"context"
	"net/http"
	"sync"
)

// Round makes all deliveries that are due now, and waits for them.
func (d *Deliverer) Round(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	_, err := d.round(ctx, &workers)
	return err
}

func NewClient(private bool) *http.Client { return newClient(private) }
