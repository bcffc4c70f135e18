package kubernetes

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"holon/runner/engine"
)

// policyName is the NetworkPolicy of a namespace that denies all to Pods with podKey.
const policyName = "holon-deny-all"

// denyAll lets nothing in or out.
func denyAll() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{Kind: "NetworkPolicy", APIVersion: networkingv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{podKey: podValue}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// ensurePolicy makes the NetworkPolicy if it is not there, before any Pod that it is for.
func (e *Engine) ensurePolicy(ctx context.Context) error {
	there, err := e.hasPolicy(ctx, e.namespace)
	if err != nil || there {
		return err
	}
	err = e.networking.Post().Namespace(e.namespace).Resource("networkpolicies").Body(denyAll()).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) { // another process made it, or it denies less, as Inspect tells
		return nil
	}
	return wrap("make the NetworkPolicy "+policyName, err)
}

// hasPolicy reports whether the NetworkPolicy is there and denies all.
func (e *Engine) hasPolicy(ctx context.Context, namespace string) (bool, error) {
	var found networkingv1.NetworkPolicy
	err := e.networking.Get().Namespace(namespace).Resource("networkpolicies").Name(policyName).Do(ctx).Into(&found)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, wrap("read the NetworkPolicy "+policyName, err)
	}
	s := found.Spec
	selects := len(s.PodSelector.MatchExpressions) == 0
	for key, value := range s.PodSelector.MatchLabels {
		selects = selects && key == podKey && value == podValue
	}
	types := map[networkingv1.PolicyType]bool{}
	for _, t := range s.PolicyTypes {
		types[t] = true
	}
	return selects && len(s.Ingress)+len(s.Egress) == 0 && types[networkingv1.PolicyTypeIngress] &&
		types[networkingv1.PolicyTypeEgress], nil
}

// networkAxis says what is known of the network. The cluster does not say whether one of its plugins enforces a policy.
func networkAxis(hostNetwork, policy bool) engine.Axis {
	switch {
	case hostNetwork:
		return axis(engine.NotEnforced, "host")
	case policy:
		return axis(engine.RuntimeShaped, "none, if the cluster's network plugin enforces NetworkPolicy")
	}
	return axis(engine.NotEnforced, "the cluster's: NetworkPolicy "+policyName+" is not there, or denies less")
}
