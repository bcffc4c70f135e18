package modelaccess

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"holon/internal/pattern"
	"holon/runner/settings"
)

//go:embed prices.txt
var listPrices string

// priceList is the table of prices.txt.
type priceList struct {
	asOf   string // the date of the table, 2006-01-02
	models map[string]Price
}

var readPriceList = sync.OnceValue(func() priceList {
	list, err := parsePrices(listPrices)
	if err != nil {
		panic("prices.txt: " + err.Error()) // a test reads it
	}
	return list
})

// parsePrices reads a table: the date on a comment of its own, and lines of reference, input, output, cached input and
// cache write, where "-" is the price of input.
func parsePrices(text string) (list priceList, err error) {
	list.models = make(map[string]Price)
	for line := range strings.Lines(text) {
		comment, isComment := strings.CutPrefix(strings.TrimSpace(line), "#")
		if _, err := time.Parse(time.DateOnly, strings.TrimSpace(comment)); isComment && err == nil {
			list.asOf = strings.TrimSpace(comment)
		}
		fields := strings.Fields(line)
		if isComment || len(fields) == 0 {
			continue
		}
		if len(fields) != 5 {
			return list, fmt.Errorf("%q has %d fields, not 5", line, len(fields))
		}
		p := Price{}
		for i, to := range []**settings.Money{&p.Input, &p.Output, &p.CachedInput, &p.CacheWrite} {
			var m settings.Money
			if fields[i+1] == "-" {
				continue
			}
			if err := m.UnmarshalText([]byte(fields[i+1])); err != nil {
				return list, fmt.Errorf("%q: %w", line, err)
			}
			*to = &m
		}
		if p.Input == nil || p.Output == nil || list.models[fields[0]].Input != nil {
			return list, fmt.Errorf("%q is half a price, or the second one of its model", line)
		}
		list.models[fields[0]] = p
	}
	if list.asOf == "" {
		return list, errors.New("there is no date")
	}
	return list, nil
}

// snapshot is what names of models end with that are one version of a model, at its price.
var snapshot = pattern.Lazy(`-(latest|\d{8}|\d{4}-\d{2}-\d{2})$`)

// Price returns what a model costs: as it is set in models.catalog, else by the list, unless models.list_prices is
// false; nil where neither has it.
func (h *Host) Price(ref string) *Price {
	if f := h.Settings.Catalog[ref]; f != nil &&
		(f.Input != nil || f.Output != nil || f.CachedInput != nil || f.CacheWrite != nil) {
		return &Price{Input: f.Input, CachedInput: f.CachedInput, CacheWrite: f.CacheWrite, Output: f.Output}
	}
	list := readPriceList()
	p, ok := list.models[ref]
	if !ok {
		p, ok = list.models[snapshot().ReplaceAllString(ref, "")]
	}
	if !ok || !h.Settings.ListPrices {
		return nil
	}
	p.ListOf = list.asOf
	return &p
}
