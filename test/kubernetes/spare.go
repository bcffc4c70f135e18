package main

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addSpare adds a node that is ready and takes no Pod, for as long as the cluster lives: where no node is ready, the
// controllers take themselves for the ones that are cut off, and give up no Pod of a node that is gone.
func (c *cluster) addSpare(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	name := meta.ObjectMeta{Name: "spare"}
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, &core.Node{ObjectMeta: name, Spec: core.NodeSpec{Unschedulable: true}},
		meta.CreateOptions{}); err != nil {
		return fmt.Errorf("add a spare node: %w", err)
	}
	ready := func(ctx context.Context) error {
		_, err := nodes.Patch(ctx, "spare", types.MergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), meta.PatchOptions{}, "status")
		return err
	}
	if err := ready(ctx); err != nil {
		return fmt.Errorf("make the spare node ready: %w", err)
	}
	leases := client.CoordinationV1().Leases("kube-node-lease")
	if _, err := leases.Create(ctx, &coordination.Lease{ObjectMeta: name}, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("make the lease of the spare node: %w", err)
	}
	go func() {
		for ; ; time.Sleep(3 * time.Second) { // the next one succeeds, once the API server answers again
			now := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(meta.RFC3339Micro))
			_, _ = leases.Patch(context.Background(), "spare", types.MergePatchType, []byte(now), meta.PatchOptions{})
			_ = ready(context.Background()) // the controllers take it for lost after an outage of the API server
		}
	}()
	return nil
}
