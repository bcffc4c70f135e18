package kubernetes

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
	list, err := e.policies(ctx, e.namespace)
	if err != nil || slices.ContainsFunc(list, func(p networkingv1.NetworkPolicy) bool { return p.Name == policyName }) {
		return err
	}
	err = e.networking.Post().Namespace(e.namespace).Resource("networkpolicies").Body(denyAll()).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) { // another process made it
		return nil
	}
	return wrap("make the NetworkPolicy "+policyName, err)
}

// policies are those of a namespace.
func (e *Engine) policies(ctx context.Context, namespace string) ([]networkingv1.NetworkPolicy, error) {
	var found networkingv1.NetworkPolicyList
	err := e.networking.Get().Namespace(namespace).Resource("networkpolicies").Do(ctx).Into(&found)
	return found.Items, wrap("read the NetworkPolicies", err)
}

// networkAxis says what is known of the network of a Pod. Policies add up: what one lets through none takes back. The
// cluster does not say whether one of its plugins enforces a policy, nor what other kinds of policy a plugin has.
func networkAxis(pod *corev1.Pod, policies []networkingv1.NetworkPolicy) engine.Axis {
	closed := map[networkingv1.PolicyType]bool{}
	var opened []string
	for _, p := range policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		for _, t := range p.Spec.PolicyTypes {
			closed[t] = true
		}
		if len(p.Spec.Ingress)+len(p.Spec.Egress) > 0 {
			opened = append(opened, p.Name)
		}
	}
	switch {
	case pod.Spec.HostNetwork:
		return axis(engine.NotEnforced, "host")
	case len(opened) > 0:
		return axis(engine.NotEnforced, "opened by NetworkPolicy "+strings.Join(opened, ", "))
	case closed[networkingv1.PolicyTypeIngress] && closed[networkingv1.PolicyTypeEgress]:
		return axis(engine.RuntimeShaped, "none, if the cluster's network plugin enforces NetworkPolicy")
	}
	return axis(engine.NotEnforced, "the cluster's: NetworkPolicy "+policyName+" is not there, or denies less")
}
