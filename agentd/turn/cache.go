package turn

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
)

// cacheable is the shortest prefix, in tokens, that providers keep.
const cacheable = 1024

// Memory is what one turn learned of a model and its provider that the next of
// the conversation has use for. It is about estimates and caches alone: without
// it a turn does the same.
type Memory struct {
	gauge model.Gauge
	known cached
}

// cached is what a provider was told last, and so may have in its cache.
type cached struct {
	ref      string // of the model; "" for nothing
	tokens   int64  // as the provider counted them
	items    int
	epoch    int
	preamble string
	prefix   string // fingerprint of the items
}

func (v *view) memory() Memory {
	return Memory{v.gauge, v.known}
}

// fingerprints tell one prefix of a conversation from another: those of items, and of the first n of them, "" when
// there are not so many. They are made of the ids and sizes of items, which never change: their content would cost more
// than a diagnosis is worth.
func fingerprints(items []responses.Item, n int) (all, first string) {
	sum := sha256.New()
	for i, item := range items {
		if i == n {
			first = digest(sum)
		}
		sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(model.EstimateItem(item))))
		sum.Write([]byte(item.ItemID() + "\x00"))
	}
	if all = digest(sum); n == len(items) {
		first = all
	}
	return all, first
}

func digest(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:8]) }

// preambleOf is the fingerprint of what is the same in every round.
func preambleOf(req model.Request) string {
	sum := sha256.New()
	buf := bufio.NewWriterSize(sum, 1<<10) // so that no text is copied as a whole; a hash takes everything
	text := func(s string) { _, _ = buf.WriteString(s); _ = buf.WriteByte(0) }
	raw := func(b []byte) { _, _ = buf.Write(b); _ = buf.WriteByte(0) }
	text(req.Instructions)
	text(req.Text.Format.Type)
	raw(req.Text.Format.Schema)
	for _, tool := range req.Tools {
		text(tool.Name)
		text(tool.Description)
		raw(tool.Parameters)
	}
	_ = buf.Flush()
	return digest(sum)
}

// question is what a request tells, taken down before anything is answered.
type question struct {
	items     int
	estimated int // uncorrected
	tokens    int
	transient int // of tokens, those of items that no later request has: a reminder, a nudge
	preamble  string
	all       string // fingerprint of the items
	before    string // and of as many as the provider was told before
}

// ask takes down the request that follows.
func (v *view) ask(req model.Request) {
	q := question{items: len(v.visible.Items), estimated: v.rest + v.size, tokens: v.tokens(), preamble: preambleOf(req)}
	q.all, q.before = fingerprints(v.visible.Items, v.known.items)
	v.now, v.asked = q, len(v.r.input)
}

// alone counts an item that the present request alone has, with its estimate.
func (v *view) alone(size int) {
	q := &v.now
	q.estimated += size
	q.tokens, q.transient = v.gauge.Tokens(q.estimated), q.transient+v.gauge.Tokens(size)
}

// prompt says what an attempt told its provider and what of it was cached, and
// notes what the provider has from now on.
func (v *view) prompt(a model.Attempt) *turns.Prompt {
	q, known, l := v.now, v.known, a.Lowering
	p := &turns.Prompt{
		Fingerprint: q.all, PreambleFingerprint: q.preamble, EstimatedTokens: q.tokens, Epoch: v.visible.Epoch,
		CachedTokens: a.Usage.InputTokenDetails.CachedTokens,
		Mode:         l.Mode, Items: l.Items, Bytes: l.Bytes, CacheKey: l.CacheKey,
		Breakpoints: l.Breakpoints,
	}
	switch {
	case known.ref == "":
		p.Broken = turns.CacheFirst
	case known.ref != a.Ref:
		p.Broken = turns.CacheModel
	case known.preamble != q.preamble:
		p.Broken = turns.CachePreamble
	case known.prefix != q.before && v.visible.Epoch > known.epoch:
		p.Broken = turns.CacheCompacted
	case known.prefix != q.before:
		p.Broken = turns.CacheHistory
	case known.tokens < cacheable:
		p.Broken = turns.CacheShort
	default:
		p.ExpectedTokens = known.tokens
		p.HitRatio = math.Round(1000*min(1, max(0, float64(p.CachedTokens)/float64(known.tokens)))) / 1000
		if a.Err == nil && p.CachedTokens == 0 {
			p.Broken = turns.CacheMissed
		}
	}
	if a.Err == nil {
		v.known = cached{ref: a.Ref, tokens: max(0, a.Usage.InputTokens-int64(q.transient)), items: q.items,
			epoch: v.visible.Epoch, preamble: q.preamble, prefix: q.all}
		if a.Ref == v.r.Model.Ref && !a.Usage.Estimated { // an estimate may have the output in its input
			v.gauge.Report(q.estimated, a.Usage.InputTokens)
		}
	}
	return p
}
