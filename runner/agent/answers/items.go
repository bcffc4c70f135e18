package answers

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"holon/responses"
	"holon/state/ledger"
)

// Items in a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// inputItems answers with a page of what the client sent, and not of the prompt that the agent got of it.
func inputItems(m ledger.Message, w http.ResponseWriter, r *http.Request) error {
	req, err := responses.DecodeRequest(m.Request)
	if err != nil {
		return responses.Internal("the request of the response cannot be read", err)
	}
	items, more, err := page(req.Input, r.URL.Query())
	if err != nil {
		return err
	}
	list := struct {
		Object  string          `json:"object"`
		Data    responses.Items `json:"data"`
		FirstID *string         `json:"first_id"`
		LastID  *string         `json:"last_id"`
		HasMore bool            `json:"has_more"`
	}{Object: "list", Data: items, HasMore: more}
	if n := len(items); n > 0 {
		list.FirstID, list.LastID = new(items[0].ItemID()), new(items[n-1].ItemID())
	} else {
		list.Data = responses.Items{}
	}
	return answer(w, http.StatusOK, list)
}

// page is what of a list a query asks for by limit, order, after and before.
func page(items responses.Items, q url.Values) (_ responses.Items, more bool, err error) {
	limit := defaultPage
	if given := q.Get("limit"); given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > maxPage {
			return nil, false, responses.Invalid("limit", responses.CodeInvalidValue, "limit must be a number of 1 to 100")
		}
	}
	switch order := q.Get("order"); order {
	case "", "desc":
		items = slices.Clone(items)
		slices.Reverse(items)
	case "asc":
	default:
		return nil, false, responses.Invalid("order", responses.CodeInvalidValue, "order must be asc or desc")
	}
	for _, param := range []string{"after", "before"} {
		id := q.Get(param)
		if id == "" {
			continue
		}
		at := slices.IndexFunc(items, func(i responses.Item) bool { return i.ItemID() == id })
		switch {
		case at < 0:
			return nil, false, responses.Invalid(param, responses.CodeInvalidValue, "there is no item "+clip(id))
		case param == "after":
			items = items[at+1:]
		default:
			items = items[:at]
		}
	}
	return items[:min(limit, len(items))], len(items) > limit, nil
}
