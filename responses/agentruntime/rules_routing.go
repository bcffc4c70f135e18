package agentruntime

import (
	"cmp"
	"fmt"
	"strings"
)

func checkRouted(f *finding) {
	turn := f.turnOf(f.Event)
	if !strings.HasPrefix(f.Type, "turn.") {
		checkCandidates(f, turn)
		return
	}
	if turn == nil || turn.seen["model.requested"] == 0 {
		return
	}
	n := turn.seen["routing.decided"] + turn.seen["routing.single_candidate"] + turn.seen["routing.not_possible"]
	f.must(n == 1, fmt.Sprintf("%d decisions about the route of %s", n, turn.id), "1")
}

// checkCandidates holds a count of candidates to those that are listed.
func checkCandidates(f *finding, turn *object) {
	count, counted := f.number("candidate_count")
	got := "candidate_count " + f.shown("candidate_count")
	f.must(f.field("candidates") == nil || count == float64(len(f.list("candidates"))), got, "the number of candidates")
	if turn != nil && turn.text["candidates"] != "" {
		f.must(!counted || turn.text["candidates"] == fmt.Sprint(count), got, turn.text["candidates"]+" as before")
	}
	switch f.Type {
	case "routing.single_candidate":
		f.must(!counted || count == 1, got, "1")
	case "routing.not_possible":
		f.must(count == 0, got, "0")
	case "routing.decided": // the selected one, and those that are asked after it
		least := float64(1 + len(f.list("fallback_chain")))
		f.must(!counted || count >= least, got, fmt.Sprintf("%v or more", least))
		listed := turn == nil || turn.text["candidates"] != "" || f.field("candidates") != nil
		f.must(!counted || listed || count <= least, got, fmt.Sprintf("%v, as fallback_chain has", least))
	}
}

// checkFallback holds the fallbacks of a turn to its requests.
func checkFallback(f *finding) {
	turn := f.turnOf(f.Event)
	if f.Type == "model.requested" {
		if turn == nil {
			return
		}
		f.must(turn.text["advanced"] != "true", "a request after advanced_to_fallback", "routing.fallback.applied before it")
		to, model := turn.text["fallback"], requestedModel(f.Event)
		f.must(to == "" || model == "" || model == to, fmt.Sprintf("a request to %.80s after a fallback", model), to)
		return
	}
	f.has("from", "to", "reason")
	from, to := f.text("from"), f.text("to")
	f.must(from == "" || from != to, fmt.Sprintf("from %.80s to itself", from), "another model")
	if turn == nil || from == "" {
		return
	}
	advanced, failed := turn.text["advanced"]
	f.must(failed && advanced != "false", fmt.Sprintf("a fallback from %.80s", from),
		"model.failed that advances before it")
	asked := turn.text["model"]
	f.must(asked == "" || from == asked, fmt.Sprintf("a fallback from %.80s", from), asked+", which failed")
}

// requestedModel is the reference of the model that is asked, "" when the event does not tell.
func requestedModel(e *Event) string {
	return cmp.Or(e.text("provider_selector"), strings.Trim(e.text("provider_name")+"/"+e.text("model_name"), "/"))
}

func checkCost(f *finding) {
	turn, used := f.turnOf(f.Event), f.tokens()
	total, counted := f.number("usage.total_tokens")
	counted = counted && f.missing("usage.input_tokens", "usage.output_tokens") == ""
	f.must(!counted || total == used.in+used.out, fmt.Sprintf("total_tokens %v of %v", total, used),
		fmt.Sprint(used.in+used.out))
	switch f.Type {
	case "turn.completed", "turn.failed":
		checkSpent(f, turn, used)
		return
	case "cost.recorded":
		_, amount := f.number("amount")
		priced := f.text("price_source") != "" && f.text("price_source") != "unknown"
		f.must(f.field("amount") == nil || amount && priced || f.text("amount") == "unknown",
			"amount "+f.shown("amount")+" at price_source "+f.shown("price_source"), "unknown")
		request := f.IDs[ModelRequest]
		f.must(turn == nil || request == "" || turn.seen[costOf(request)] == 0, "a second cost of "+request, "one")
	}
	if turn != nil && f.field("usage") != nil {
		before, ok := turn.used[f.IDs[ModelRequest]]
		f.must(!ok || used == before, fmt.Sprintf("%v of %s", used, f.IDs[ModelRequest]), before.String()+" as before")
	}
}

// costOf is the name under which a turn counts the costs of a model request.
func costOf(request string) string { return "cost of " + request }

// checkSpent holds the usage of a turn to its costs.
func checkSpent(f *finding, turn *object, used tokens) {
	if turn == nil || turn.seen["model.requested"] == 0 {
		return
	}
	if f.field("usage") == nil && turn.spent == (tokens{}) &&
		(turn.seen["model.completed"] == 0 || f.Type == "turn.failed") {
		return // a turn that failed may not know what it used
	}
	f.must(turn.spent == used, turn.spent.String()+" in cost.recorded", used.String()+" as in usage")
}

func checkLimited(f *finding) {
	if f.Type == "rate_limit.hit" {
		key := "model request " + f.IDs[ModelRequest]
		f.must(f.IDs[ModelRequest] == "" || f.open[key] != nil || f.mayHaveEnded(key), f.Type+" of a "+key,
			"model.requested before it")
		return
	}
	if turn := f.turnOf(f.Event); turn != nil {
		for _, request := range turn.limited {
			f.must(turn.seen["rate_limit.hit "+request] > 0, "no rate_limit.hit of "+request, "one of each request with a 429")
		}
	}
}
