package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"holon/internal/scenario"
	"holon/responses"
)

// view is the data of conditions and placeholders: the user's last message and the
// calls of the round before.
type view struct {
	user        string
	interjected string // by the user since the round before, while the turn ran
	calls       []result
}

// result is a finished call.
type result struct {
	tool     string
	output   string          // as shown to the model
	envelope json.RawMessage // canonical result; nil for functions of the client
}

// facts are read from the canonical envelope only when a condition asks.
func (r result) facts() (status string, exit *int, kind string) {
	var env struct {
		Status string `json:"status"`
		Result struct {
			ExitStatus *int `json:"exit_status"`
		} `json:"result"`
		Error *struct {
			Kind string `json:"kind"`
		} `json:"error"`
	}
	if json.Unmarshal(r.envelope, &env) != nil {
		return "", nil, "" // the client's own function, or a call that was cut short
	}
	if env.Error != nil {
		kind = env.Error.Kind
	}
	return env.Status, env.Result.ExitStatus, kind
}

// mismatch describes how the conversation differs from the condition, "" when it
// does not. A nil condition always holds.
func mismatch(c *scenario.Condition, v view) string {
	if c == nil {
		return ""
	}
	if why := cmp.Or(textMismatch(c.User, "the user's message", v.user),
		textMismatch(c.Interjected, "what the user said meanwhile", v.interjected)); why != "" || !wantsCall(c) {
		return why
	}
	if len(v.calls) == 0 {
		subject := "the result of a tool"
		if c.Tool != "" {
			subject = "a result of " + c.Tool
		}
		return fmt.Sprintf("expected %s, but no tool was called before", subject)
	}
	if c.Call > len(v.calls) {
		return fmt.Sprintf("expected a call %d in the round before, but it made %d", c.Call, len(v.calls))
	}
	r := v.calls[len(v.calls)-1]
	if c.Call > 0 {
		r = v.calls[c.Call-1]
	}
	return against(c, r)
}

func wantsCall(c *scenario.Condition) bool {
	o := c.Output
	return c.Call > 0 || c.Tool != "" || c.Status != "" || c.ExitStatus != nil || c.Error != "" ||
		len(o.Contains)+len(o.NotContains)+len(o.Matches) > 0
}

// against compares the condition with one call.
func against(c *scenario.Condition, r result) string {
	if c.Tool != "" && c.Tool != r.tool {
		return fmt.Sprintf("expected a result of %s, but it is one of %s", c.Tool, r.tool)
	}
	if c.Status != "" || c.ExitStatus != nil || c.Error != "" {
		status, exit, kind := r.facts()
		switch {
		case c.Status != "" && c.Status != status:
			return fmt.Sprintf("expected status %s of %s, got %s; its output is %s", c.Status, r.tool,
				cmp.Or(status, "none"), scenario.Excerpt(r.output))
		case c.Error != "" && c.Error != kind:
			return fmt.Sprintf("expected error %s of %s, got %s; its output is %s", c.Error, r.tool,
				cmp.Or(kind, "none"), scenario.Excerpt(r.output))
		case c.ExitStatus != nil && !c.ExitStatus.Has(exit):
			got := "none"
			if exit != nil {
				got = strconv.Itoa(*exit)
			}
			return fmt.Sprintf("expected exit status %s of %s, got %s; its output is %s", c.ExitStatus, r.tool, got,
				scenario.Excerpt(r.output))
		}
	}
	return textMismatch(&c.Output, "the output of "+r.tool, r.output)
}

func textMismatch(m *scenario.TextMatch, what, text string) string {
	if m == nil {
		return ""
	}
	for _, want := range m.Contains {
		if !strings.Contains(text, want) {
			return fmt.Sprintf("expected %s to contain %s, but it is %s", what, scenario.Excerpt(want), scenario.Excerpt(text))
		}
	}
	for _, bad := range m.NotContains {
		if i := strings.Index(text, bad); i >= 0 {
			return fmt.Sprintf("expected %s not to contain %s, but at byte %d it does", what, scenario.Excerpt(bad), i)
		}
	}
	for _, re := range m.Compiled {
		if !re.MatchString(text) {
			return fmt.Sprintf("expected %s to match %s, but it is %s", what, scenario.Excerpt(re.String()),
				scenario.Excerpt(text))
		}
	}
	return ""
}

// partsText joins the texts of parts.
func partsText(parts []responses.Part) string {
	m := responses.Message{Content: parts}
	return m.Text()
}
