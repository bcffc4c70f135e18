package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"holon/agentd/model"
	"holon/internal/providers"
)

// diagnose describes how an attempt failed, without secrets.
func (e *Endpoint) diagnose(stage string, err error) *model.Diagnostics {
	cause := providers.CauseOf(withoutAddress(err), e.line)
	return &model.Diagnostics{Stage: stage, URL: e.shownURL(), Timeout: cause.Timeout, Connect: cause.Connect,
		Request: stage == model.StageSend && !cause.Connect, Body: stage == model.StageBody, Chain: cause.Chain}
}

// diagnoseStatus describes an answer that is an error, or the cause that the host's gateway had none.
func (e *Endpoint) diagnoseStatus(header http.Header) *model.Diagnostics {
	d := e.diagnose(model.StageStatus, nil)
	var cause providers.Cause
	if !e.gateway || json.Unmarshal([]byte(header.Get(providers.GatewayHeader)), &cause) != nil {
		return d
	}
	d.Stage, d.Timeout, d.Connect, d.Request = model.StageSend, cause.Timeout, cause.Connect, !cause.Connect
	for _, link := range cause.Chain {
		d.Chain = append(d.Chain, e.line(link))
	}
	return d
}

// located notes the provider's address, which the host's gateway names before it asks the provider. It never fails.
func (a *attempt) located(h http.Header) error {
	if at := h.Get(providers.AddressHeader); at != "" {
		a.address.Store(&at)
	}
	return nil
}

// addressed puts the provider's address, where the gateway named it, into what is known of a failed attempt.
func (a *attempt) addressed(err error) error {
	at := a.address.Load()
	if failed, ok := errors.AsType[*model.Error](err); ok && failed.Diagnostics != nil && at != nil {
		failed.Diagnostics.URL = a.endpoint.line(*at)
	}
	return err
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
