package agentd

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"

	"holon/responses"
	"holon/responses/turns"
)

// Items in a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// page is what of a list a request asks for.
type page struct {
	limit         int  // 1 to maxPage
	ascending     bool // the newest item first otherwise
	after, before string
}

// readPage reads limit, order, after and before of a query.
func readPage(q url.Values) (page, error) {
	p := page{after: q.Get("after"), before: q.Get("before")}
	var err error
	if p.limit, err = number(q, "limit", defaultPage, 1, maxPage); err != nil {
		return p, err
	}
	switch v := q.Get("order"); v {
	case "", "desc":
	case "asc":
		p.ascending = true
	default:
		return p, responses.Invalid("order", responses.CodeInvalidValue, "order must be asc or desc")
	}
	return p, nil
}

// itemList is a page of items as OpenAI's API has it. The ids are null when
// the page is empty.
type itemList struct {
	Object  string          `json:"object"`
	Data    responses.Items `json:"data"`
	FirstID *string         `json:"first_id"`
	LastID  *string         `json:"last_id"`
	HasMore bool            `json:"has_more"`
}

// cut returns the page of items, which are in the order they came.
func (p page) cut(items []responses.Item) (itemList, error) {
	items = slices.Clone(items)
	if !p.ascending {
		slices.Reverse(items)
	}
	find := func(param, id string) (int, error) {
		i := slices.IndexFunc(items, func(item responses.Item) bool { return item.ItemID() == id })
		if i < 0 {
			return 0, responses.Invalid(param, responses.CodeInvalidValue,
				fmt.Sprintf("no input item of this response has the id %q", clipID(id)))
		}
		return i, nil
	}
	from, to := 0, len(items)
	if p.after != "" {
		i, err := find("after", p.after)
		if err != nil {
			return itemList{}, err
		}
		from = i + 1
	}
	if p.before != "" {
		i, err := find("before", p.before)
		if err != nil {
			return itemList{}, err
		}
		to = max(i, from)
	}
	end := min(from+p.limit, to)
	more := end < to
	if p.before != "" && p.after == "" { // those next to it, seen from there
		from, end = max(0, to-p.limit), to
		more = from > 0
	}
	list := itemList{Object: "list", Data: append(responses.Items{}, items[from:end]...), HasMore: more}
	if n := len(list.Data); n > 0 {
		first, last := list.Data[0].ItemID(), list.Data[n-1].ItemID()
		list.FirstID, list.LastID = &first, &last
	}
	return list, nil
}

// getInputItems is GET /responses/{id}/input_items: what the request itself
// said, without the conversation before it.
func (s *Server) getInputItems(w http.ResponseWriter, r *http.Request) {
	p, err := readPage(r.URL.Query())
	if err != nil {
		s.fail(w, err)
		return
	}
	items, err := s.inputItems(chi.URLParam(r, "id"))
	if err != nil {
		s.fail(w, err)
		return
	}
	list, err := p.cut(items)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.writeJSON(w, http.StatusOK, list, turns.NamesOfTools(nil, list.Data)...)
}

// inputItems returns the items of a stored response's request.
func (s *Server) inputItems(id string) ([]responses.Item, error) {
	v, stored, err := s.stored(id)
	if err != nil {
		return nil, err
	}
	if v != nil {
		defer v.release()
		return v.input, nil
	}
	return slices.DeleteFunc(slices.Clone(stored.Input), responses.IsContext), nil
}
