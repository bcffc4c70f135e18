package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/agentd/tools"
	wire "holon/responses/tasks"
)

// batchArgs are the arguments of ExecCommandBatch.
type batchArgs struct {
	Items       []batchItem `json:"items"`
	StopOnError bool        `json:"stop_on_error,omitempty"`
}

// batchItem is one command of a batch: an ExecCommand without terminal, input
// and task.
type batchItem struct {
	Cmd             string `json:"cmd"`
	Workdir         string `json:"workdir,omitempty"`
	Shell           string `json:"shell,omitempty"`
	Login           bool   `json:"login,omitempty"`
	YieldTimeMS     int    `json:"yield_time_ms,omitempty"`
	MaxOutputTokens int    `json:"max_output_tokens,omitempty"`
}

const batchDescription = "Runs up to 12 shell commands one after the other and returns the outcome of each. Use " +
	"it for short independent commands, such as looking at several files.\n" +
	"Each runs in a shell of its own; cd and variables do not carry over. No command of a batch becomes a task: " +
	"one that runs longer than its yield_time_ms is ended. For a terminal, input or a long run use ExecCommand."

// givenBatch is batchArgs with items that are not checked yet.
type givenBatch struct {
	Items       []json.RawMessage `json:"items"`
	StopOnError bool              `json:"stop_on_error"`
}

// itemStatus is what became of a command of a batch.
type itemStatus string

// The states of an item.
const (
	itemCompleted itemStatus = "completed" // exit status 0
	itemFailed    itemStatus = "failed"    // another status, not started, or not ended by itself
	itemRejected  itemStatus = "rejected"  // its arguments are wrong; it was not started
	itemSkipped   itemStatus = "skipped"   // an item before it stopped the batch
)

// kindNonzeroExit is the error kind of an item that ended with another status
// than 0. It has a result all the same.
const kindNonzeroExit = "nonzero_exit"

// batchResult is the canonical result of ExecCommandBatch (recovered types, 11.4).
type batchResult struct {
	ItemCount      int          `json:"item_count"`
	CompletedCount int          `json:"completed_count"`
	FailedCount    int          `json:"failed_count"`
	RejectedCount  int          `json:"rejected_count"`
	SkippedCount   int          `json:"skipped_count"`
	StopOnError    bool         `json:"stop_on_error"`
	Items          []itemResult `json:"items"`
}

// itemResult is the outcome of one command of a batch.
type itemResult struct {
	Index        int              `json:"index"` // from 0
	Cmd          string           `json:"cmd"`
	Status       itemStatus       `json:"status"`
	Result       *completedResult `json:"result,omitempty"`
	ErrorKind    string           `json:"error_kind,omitempty"`
	ErrorMessage string           `json:"error_message,omitempty"`
	ErrorDetails map[string]any   `json:"error_details,omitempty"`
	DurationMS   *int64           `json:"duration_ms,omitempty"`
}

type batchTool struct {
	Family
	*commands
	def     tools.Definition
	checker *tools.Checker // of items
}

func newBatch(c *commands) (tools.Tool, error) {
	item := map[string]func(*jsonschema.Schema){
		"cmd":           about("the shell command; several lines are allowed", notEmpty),
		"workdir":       about("directory to run in, relative to the root of the working tree (the default)"),
		"shell":         about("shell to use; default bash, or sh where there is no bash"),
		"login":         about("start the shell as a login shell"),
		"yield_time_ms": about("end the command after this many milliseconds; default 30000", upTo(maxYield)),
		"max_output_tokens": about("how much of the output to show, in tokens; default is an equal share of 8000",
			positive),
	}
	def, err := define[batchArgs](batchName, batchDescription, map[string]func(*jsonschema.Schema){
		"items": about("the commands, run one after the other; at most 12", func(s *jsonschema.Schema) {
			s.MinItems, s.MaxItems = new(1), new(maxBatch)
			for name, adjust := range item {
				adjust(s.Items.Properties[name])
			}
		}),
		"stop_on_error": about("skip the rest after a command that does not exit with 0; default false"),
	})
	if err != nil {
		return nil, err
	}
	def.Apart = "items"
	checker, err := def.NewChecker()
	return &batchTool{commands: c, def: def, checker: checker}, err
}

func (t *batchTool) Definition() tools.Definition { return t.def }

func (t *batchTool) Run(ctx context.Context, env tools.Env, call tools.Call) tools.Output {
	args, bad := tools.Decode[givenBatch](call)
	if bad != nil {
		return tools.Fail(bad)
	}
	share := max(env.Policy.Budget(0)/len(args.Items), minShare)
	most := max(env.Policy.Budget(1<<30)/len(args.Items), minShare)
	b := batchResult{ItemCount: len(args.Items), StopOnError: args.StopOnError}
	stopped := false
	for i, raw := range args.Items {
		it, bad := t.decode(raw)
		out := itemResult{Index: i, Cmd: tools.Clip(it.Cmd, maxItemCmd), Status: itemSkipped}
		switch {
		case stopped:
		case bad != nil:
			out.fail(itemRejected, bad)
		default:
			tokens := share
			if it.MaxOutputTokens > 0 {
				tokens = min(it.MaxOutputTokens, most)
			}
			t.item(ctx, env, it, tokens, &out)
		}
		b.count(out)
		stopped = stopped || args.StopOnError && out.Status != itemCompleted || ctx.Err() != nil
	}
	if ctx.Err() != nil {
		return tools.Fail(&tools.Error{
			Kind: tools.KindCanceled, Message: "the batch was cancelled with its turn; everything it started is gone",
			Details: map[string]any{"items": b.Items},
		})
	}
	return tools.Output{Summary: b.summary(), Result: b}
}

// decode returns an item, of one that does not fit as much as names it in the result.
func (t *batchTool) decode(raw json.RawMessage) (it batchItem, bad *tools.Error) {
	args, bad := t.checker.Check(raw)
	if bad != nil {
		var named struct {
			Cmd string `json:"cmd"`
		}
		_ = json.Unmarshal(raw, &named) // another type names nothing
		return batchItem{Cmd: named.Cmd}, bad
	}
	return tools.Decode[batchItem](tools.Call{Arguments: args})
}

// minShare is the least that an item may print, in tokens.
const minShare = 200

// maxItemCmd bounds a command within the result.
const maxItemCmd = 2000

// item runs one command and fills in its outcome.
func (t *batchTool) item(ctx context.Context, env tools.Env, it batchItem, tokens int, out *itemResult) {
	l := launch{
		Command: wire.Command{Cmd: it.Cmd, Workdir: it.Workdir, Shell: it.Shell, Login: it.Login}, tokens: tokens,
		timeout: milliseconds(it.YieldTimeMS, defaultYield), log: fmt.Sprintf("%d-", out.Index),
	}
	if bad := l.resolve(env); bad != nil {
		out.fail(itemRejected, bad)
		return
	}
	began := time.Now()
	p, bad := t.start(env, &l)
	if bad != nil {
		out.fail(itemFailed, bad)
		return
	}
	done := l.ended(env, wait(ctx, p))
	out.DurationMS = new(time.Since(began).Milliseconds())
	if e := done.failure(env); e != nil {
		out.fail(itemFailed, e)
		return
	}
	result := done.project(env.Artifacts)
	out.Status, out.Result = itemCompleted, &result
	if result.ExitStatus != 0 {
		out.Status, out.ErrorKind, out.ErrorMessage = itemFailed, kindNonzeroExit, done.summary()
	}
}

func (i *itemResult) fail(status itemStatus, e *tools.Error) {
	i.Status, i.ErrorKind, i.ErrorMessage, i.ErrorDetails = status, e.Kind, e.Message, e.Details
}

func (b *batchResult) count(i itemResult) {
	b.Items = append(b.Items, i)
	switch i.Status {
	case itemCompleted:
		b.CompletedCount++
	case itemFailed:
		b.FailedCount++
	case itemRejected:
		b.RejectedCount++
	case itemSkipped:
		b.SkippedCount++
	}
}

func (b *batchResult) summary() string {
	text := fmt.Sprintf("%d of %s completed", b.CompletedCount, counted(b.ItemCount, "command"))
	for _, c := range []struct {
		n    int
		what string
	}{{b.FailedCount, "failed"}, {b.RejectedCount, "rejected"}, {b.SkippedCount, "skipped"}} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return text
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func renderBatch(canonical tools.Result, policy tools.RenderPolicy) string {
	batch, ok := decoded[batchResult](canonical)
	if !ok {
		return canonical.SummaryText
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", batch.summary())
	for _, i := range batch.Items {
		i.render(&b, policy)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// render keeps the boundaries between items visible.
func (i *itemResult) render(b *strings.Builder, policy tools.RenderPolicy) {
	fmt.Fprintf(b, "\n[%d] %s\n", i.Index+1, tools.Clip(i.Cmd, 300))
	switch {
	case i.Result != nil:
		fmt.Fprintf(b, "Process exited with code %d\n", i.Result.ExitStatus)
		i.Result.renderOutput(b, policy)
	case i.Status == itemSkipped:
		b.WriteString("skipped\n")
	default:
		fmt.Fprintf(b, "%s, %s: %s\n", i.Status, i.ErrorKind, i.ErrorMessage)
		if _, ran := i.ErrorDetails["stdout_preview"]; ran { // details and results have these members in common
			if r, ok := decoded[completedResult](tools.Result{}.With(i.ErrorDetails)); ok {
				r.renderOutput(b, policy)
			}
		}
	}
}
