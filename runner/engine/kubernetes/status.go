package kubernetes

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"holon/runner/engine"
)

// lostTime is how long after its time a Pod that is being deleted may still run, before its node counts as lost.
const lostTime = 60 * time.Second

// silentTime is after how long of silence a node counts as lost where the cluster does not delete its Pods: it does so
// after five minutes, unless none of its nodes answers, or a toleration says otherwise.
const silentTime = 10 * time.Minute

// status is the life cycle of the program of a Pod. A Pod that is being deleted and was not started counts as exited.
func status(pod *corev1.Pod, now time.Time) engine.Status {
	switch {
	case exitOf(pod, now) != nil:
		return engine.StatusExited
	case pod.Annotations[startedKey] != "":
		return engine.StatusRunning
	case pod.DeletionTimestamp != nil:
		return engine.StatusExited
	}
	return engine.StatusCreated
}

// exitOf returns how the program of a Pod ended, nil if it has not.
func exitOf(pod *corev1.Pod, now time.Time) *engine.Exit {
	why := podReason(pod)
	if s := statusOf(pod, agentName); s != nil && s.State.Terminated != nil {
		t := s.State.Terminated
		exit := &engine.Exit{Code: int(t.ExitCode), OOMKilled: t.Reason == "OOMKilled", Error: why}
		switch t.Reason {
		case "ContainerStatusUnknown", "ContainerCannotRun", "StartError": // it did not run, or nobody saw its end
			exit.Code, exit.Error = -1, said(t.Reason, t.Message)
		}
		return exit
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return &engine.Exit{Code: -1, Error: cmp.Or(why, "the Pod ended")}
	}
	if nodeLost(pod, now) {
		return &engine.Exit{Code: -1, Error: strings.TrimSuffix("node "+pod.Spec.NodeName+" does not answer; "+why, "; ")}
	}
	return nil
}

// nodeLost reports whether a Pod was given up with its node.
func nodeLost(pod *corev1.Pod, now time.Time) bool {
	since := condition(pod, corev1.PodReady).LastTransitionTime
	return pod.DeletionTimestamp != nil && (silent(pod) || now.After(pod.DeletionTimestamp.Add(lostTime))) ||
		silent(pod) && now.After(since.Add(silentTime))
}

// silent reports whether the node of a Pod has ceased to report: the cluster says then that the Pod is not ready, while
// its containers are by the last report. A node that answers again goes on with the Pod, unless it is being deleted by
// then, which the cluster does when the Pod's toleration of unreachable nodes is over.
func silent(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionFalse &&
		condition(pod, corev1.ContainersReady).Status == corev1.ConditionTrue
}

// podReason says why the cluster ends a Pod, "" if it does not.
func podReason(pod *corev1.Pod) string {
	if pod.Status.Reason != "" { // Evicted, NodeLost, Preempting and the like
		return said(pod.Status.Reason, pod.Status.Message)
	}
	if c := disruption(pod); c.Reason != "" {
		return said(c.Reason, c.Message)
	}
	if pod.DeletionTimestamp != nil {
		return "the Pod was deleted"
	}
	return ""
}

// disruption is the condition by which the cluster says that it ends a Pod; zero if it has none.
func disruption(pod *corev1.Pod) corev1.PodCondition {
	if c := condition(pod, corev1.DisruptionTarget); c.Status == corev1.ConditionTrue {
		return c
	}
	return corev1.PodCondition{}
}

func condition(pod *corev1.Pod, of corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == of {
			return c
		}
	}
	return corev1.PodCondition{}
}

// said joins the word of the cluster for a reason, and its text.
func said(reason, message string) string {
	return tidied{fmt.Errorf("%s", strings.TrimSuffix(reason+": "+message, ": "))}.Error()
}

func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for i, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

func isRunning(pod *corev1.Pod, container string) bool {
	s := statusOf(pod, container)
	return s != nil && s.State.Running != nil
}

// lost reports whether the files of a program that has ended can be fetched no more.
func lost(pod *corev1.Pod, now time.Time) bool {
	return exitOf(pod, now) != nil && (!isRunning(pod, filesName) || nodeLost(pod, now))
}

// lostError is what a Pod whose files are lost counts as: it is not there.
func lostError(pod *corev1.Pod) *engine.Error {
	return &engine.Error{Code: engine.CodeNotFound,
		Message: "Pod " + pod.Name + " ended, and what it wrote with it: " +
			cmp.Or(podReason(pod), "its containers do not run")}
}
