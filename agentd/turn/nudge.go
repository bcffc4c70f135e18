package turn

import (
	"context"
	"slices"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
)

// nudging is what a model is sent whose answer was empty, as the last item of one round's input. Neither the
// conversation nor a later request has it, and neither has the empty answer: providers refuse messages of blanks, and
// reasoning without what followed it. An answer that ends for a call that it does not have is empty, whatever it says.
const nudging = "Your last answer was empty: it had neither a final text nor a tool call. Go on with the task. " +
	"If it is done, say in a few words what the result is."

// nudge adds it to the request of the round after an empty answer.
func (r *runner) nudge(req *model.Request) {
	if !r.nudged {
		return
	}
	item := &responses.Message{ID: responses.NewID(responses.PrefixMessage), Status: responses.ItemCompleted,
		Role: responses.RoleDeveloper, Content: []responses.Part{responses.InputText(nudging)}}
	req.Input = append(slices.Clip(req.Input), item)
	r.view.alone(model.EstimateItem(item))
}

// unanswered decides what follows an empty answer, which is not success: the model is asked once more, then the turn
// ends without an answer.
func (r *runner) unanswered(ctx context.Context) (done bool, err error) {
	switch {
	case ctx.Err() != nil:
		return true, r.interrupt(ctx)
	case !r.nudged && r.spent() == "":
		r.nudged = true
		return false, r.Journal.Event(r.Scope.Warning(turns.Notice{Code: responses.ReasonEmptyAnswer,
			Component: "model", Recoverable: true, Message: "the model's answer was empty; it is asked once more"}))
	case r.askedAgain(ctx):
		return false, nil
	case r.rules.forced() && !r.rules.met():
		return true, r.choiceUnmet()
	}
	return true, r.incomplete(responses.ReasonEmptyAnswer)
}
