package endpoint

import (
	"errors"
	"net"
	"net/url"

	"holon/agentd/model"
)

// maxChain bounds the causes in a diagnosis.
const maxChain = 8

// diagnose describes how an attempt failed, without secrets.
func (e *Endpoint) diagnose(stage string, err error) *model.Diagnostics {
	d := &model.Diagnostics{Stage: stage, URL: e.shownURL()}
	var timeout interface{ Timeout() bool }
	d.Timeout = errors.As(err, &timeout) && timeout.Timeout()
	var op *net.OpError
	var dns *net.DNSError
	d.Connect = errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns)
	d.Request = stage == model.StageSend && !d.Connect
	d.Body = stage == model.StageBody
	for cause := withoutAddress(err); cause != nil && len(d.Chain) < maxChain; cause = errors.Unwrap(cause) {
		d.Chain = append(d.Chain, e.line(cause.Error()))
	}
	return d
}

// shownURL is the base URL without parts that could be secret.
func (e *Endpoint) shownURL() string {
	u, err := url.Parse(e.base)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return e.line(u.String())
}

// withoutAddress returns err without the URL that net/http puts before it.
func withoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
