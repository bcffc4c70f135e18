package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/responses"
	"holon/state"
)

// Total is the account from which all turns of a home draw, in all processes: of the present day, and of all time. It
// is kept in a file, which a lock guards for the moment in which it is read or changed. As with other budgets, requests
// that run when a bound is reached go beyond it. What a process took that was killed, and of a request that it had not
// settled, is missing. Its methods are safe for concurrent use.
type Total struct {
	path     string
	day, all Budget // MaxTokens and MaxCost count
	now      func() time.Time
	log      *slog.Logger
}

// Spending is what a Total has. Costs are in millionths.
type Spending struct {
	Day       string `json:"day"` // of UTC, 2006-01-02
	DayTokens int64  `json:"day_tokens"`
	DayCost   Amount `json:"day_cost_micros"`
	Tokens    int64  `json:"tokens"` // of all days
	Cost      Amount `json:"cost_micros"`
}

// OpenTotal returns the account in the file at path, which is made with what is taken first. Of the budgets tokens and
// cost count.
func OpenTotal(path string, day, all Budget, log *slog.Logger) *Total {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Total{path: path, day: day, all: all, now: time.Now, log: log}
}

// Budgets returns the bounds of a day and of all time.
func (t *Total) Budgets() (day, all Budget) {
	if t == nil {
		return Budget{}, Budget{}
	}
	return t.day, t.all
}

// Read returns what is taken, of the day that it is.
func (t *Total) Read() (Spending, error) {
	s := Spending{}
	if t == nil {
		return s, nil
	}
	err := t.open(os.O_RDONLY, syscall.LOCK_SH, func(f *os.File) (err error) {
		s, err = decode(f)
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	s.turn(t.now())
	return s, err
}

// Reached returns the error of a bound that is reached, nil where a request may be made. An account that cannot be read
// keeps requests back only where it has bounds.
func (t *Total) Reached() *responses.Error {
	if t == nil || t.day == (Budget{}) && t.all == (Budget{}) {
		return nil
	}
	s, err := t.Read()
	if err != nil {
		return &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeBudgetExceeded,
			Param: "budgets", Message: "what was spent cannot be read: " + err.Error(),
			Hint: "mend or remove the file, with which the account begins anew"}
	}
	bound, most := "", ""
	switch {
	case t.day.MaxTokens > 0 && s.DayTokens >= t.day.MaxTokens:
		bound, most = "day_tokens", fmt.Sprintf("%d tokens", t.day.MaxTokens)
	case t.day.MaxCost > 0 && s.DayCost >= t.day.MaxCost:
		bound, most = "day_cost", t.day.MaxCost.String()
	case t.all.MaxTokens > 0 && s.Tokens >= t.all.MaxTokens:
		bound, most = "all_tokens", fmt.Sprintf("%d tokens", t.all.MaxTokens)
	case t.all.MaxCost > 0 && s.Cost >= t.all.MaxCost:
		bound, most = "all_cost", t.all.MaxCost.String()
	default:
		return nil
	}
	of, until := "for all time", ""
	if strings.HasPrefix(bound, "day") {
		of, until = "for this day", ", or wait for the next one (UTC)"
	}
	setting := state.HostBudget(bound)
	return &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeBudgetExceeded, Param: bound,
		Message: fmt.Sprintf("the budget of %s of everything on this host %s is used up (%s)", most, of, setting),
		Hint:    "raise it with: holon config set " + setting + " N" + until}
}

// Bound is the bound that is reached, as Account.Exhausted names it; "" for none.
func (t *Total) Bound() string {
	if e := t.Reached(); e != nil {
		return e.Param
	}
	return ""
}

// Admit refuses what would ask a model where no request may be made. The error is a *state.Error that names the
// setting.
func (g *Gateway) Admit() error {
	e := g.total.Reached()
	if e == nil {
		return nil
	}
	return &state.Error{Code: responses.CodeBudgetExceeded, Param: cmp.Or(state.HostBudget(e.Param), e.Param),
		Message: e.Message, Hint: e.Hint}
}

// add counts what was taken.
func (t *Total) add(u Usage) {
	if t == nil || u.Total == 0 && u.Cost == 0 {
		return
	}
	err := t.open(os.O_RDWR|os.O_CREATE, syscall.LOCK_EX, func(f *os.File) error {
		s, err := decode(f)
		if err != nil {
			return err
		}
		s.turn(t.now())
		s.DayTokens, s.DayCost = add(s.DayTokens, u.Total), add(s.DayCost, u.Cost)
		s.Tokens, s.Cost = add(s.Tokens, u.Total), add(s.Cost, u.Cost)
		data, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if _, err = f.WriteAt(append(data, '\n'), 0); err != nil {
			return err
		}
		return f.Truncate(int64(len(data) + 1))
	})
	if err != nil {
		t.log.Error("what a model took is missing in the account of the host", "file", t.path, "tokens", u.Total,
			"err", err)
	}
}

// open opens the file and holds its lock while use runs. With os.O_CREATE a file that is not there is made.
func (t *Total) open(flags, lock int, use func(*os.File) error) error {
	const plain = syscall.O_NOFOLLOW | syscall.O_NONBLOCK // a pipe is not waited for
	f, err := os.OpenFile(t.path, flags&^os.O_CREATE|plain, 0)
	if flags&os.O_CREATE != 0 && errors.Is(err, os.ErrNotExist) {
		if err = t.begin(); err == nil {
			f, err = os.OpenFile(t.path, flags&^os.O_CREATE|plain, 0)
		}
	}
	if err != nil {
		return err
	}
	defer f.Close() // which frees the lock
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return cmp.Or(err, fmt.Errorf("%s is not a file", t.path))
	}
	if err := syscall.Flock(int(f.Fd()), lock); err != nil {
		return fmt.Errorf("lock %s: %w", t.path, err)
	}
	return use(f)
}

// begin makes the file, which is never empty, unless another process did.
func (t *Total) begin() error {
	dir := filepath.Dir(t.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	made, err := os.CreateTemp(dir, durable.TempPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(made.Name())
	var none Spending
	none.turn(t.now())
	if err = errors.Join(json.NewEncoder(made).Encode(none), made.Close()); err == nil {
		err = os.Link(made.Name(), t.path)
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

const maxTotal = 4 << 10 // bytes of the file

func decode(f *os.File) (s Spending, err error) {
	data, err := io.ReadAll(io.LimitReader(f, maxTotal))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && s.Day == "" {
		err = errors.New("it has no day")
	}
	if err == nil && min(s.DayTokens, s.Tokens, int64(s.DayCost), int64(s.Cost)) < 0 {
		err = errors.New("a number is negative")
	}
	if err != nil {
		return Spending{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return s, nil
}

// turn begins the day that it is, unless the account is of it already.
func (s *Spending) turn(now time.Time) {
	if day := now.UTC().Format(time.DateOnly); s.Day != day {
		s.Day, s.DayTokens, s.DayCost = day, 0, 0
	}
}
