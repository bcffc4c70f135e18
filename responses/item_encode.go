package responses

// MarshalJSON writes the item with its type key.
func (m *Message) MarshalJSON() ([]byte, error) { return m.appendJSON(nil) }

// MarshalJSON writes the item with its type key.
func (c *FunctionCall) MarshalJSON() ([]byte, error) { return c.appendJSON(nil) }

// MarshalJSON writes the item with its type key. An output that is one text
// part is written as a string, the form every client reads.
func (o *FunctionCallOutput) MarshalJSON() ([]byte, error) { return o.appendJSON(nil) }

// MarshalJSON writes the item with its type key; content and encrypted_content
// are absent, never null, when there are none.
func (r *Reasoning) MarshalJSON() ([]byte, error) { return r.appendJSON(nil) }

// MarshalJSON writes the item with its type key.
func (c *Compaction) MarshalJSON() ([]byte, error) { return c.appendJSON(nil) }

// MarshalJSON writes the reference with its type key.
func (r *ItemReference) MarshalJSON() ([]byte, error) { return r.appendJSON(nil) }

// MarshalJSON writes the item with its type key.
func (c *ToolCall) MarshalJSON() ([]byte, error) { return c.appendJSON(nil) }

// MarshalJSON writes the item as it came.
func (i *OpaqueItem) MarshalJSON() ([]byte, error) { return i.Raw, nil }

func (m *Message) appendJSON(dst []byte) ([]byte, error) {
	o := beginItem(dst, ItemMessage, m.ID)
	o.str("status", string(done(m.Status)))
	o.str("role", string(m.Role))
	o.optional("phase", string(m.Phase))
	list(o, "content", m.Content)
	return o.end()
}

func (c *FunctionCall) appendJSON(dst []byte) ([]byte, error) {
	o := beginItem(dst, ItemFunctionCall, c.ID)
	o.str("call_id", c.CallID)
	o.str("name", c.Name)
	o.str("arguments", c.Arguments)
	o.str("status", string(done(c.Status)))
	return o.end()
}

func (o *FunctionCallOutput) appendJSON(dst []byte) ([]byte, error) {
	w := beginItem(dst, ItemFunctionCallOutput, o.ID)
	w.str("call_id", o.CallID)
	if len(o.Output) == 1 && o.Output[0].Type == PartInputText {
		w.str("output", o.Output[0].Text)
	} else {
		list(w, "output", o.Output)
	}
	w.str("status", string(done(o.Status)))
	return w.end()
}

func (r *Reasoning) appendJSON(dst []byte) ([]byte, error) {
	o := beginItem(dst, ItemReasoning, r.ID)
	o.str("status", string(done(r.Status)))
	list(o, "summary", r.Summary)
	if len(r.Content) > 0 {
		list(o, "content", r.Content)
	}
	o.optional("encrypted_content", r.EncryptedContent)
	return o.end()
}

func (c *Compaction) appendJSON(dst []byte) ([]byte, error) {
	o := beginItem(dst, ItemCompaction, c.ID)
	o.str("status", string(done(c.Status)))
	o.str("encrypted_content", c.EncryptedContent)
	return o.end()
}

func (r *ItemReference) appendJSON(dst []byte) ([]byte, error) {
	o := begin(dst)
	o.str("type", ItemReferenceType)
	o.str("id", r.ID)
	return o.end()
}

func (c *ToolCall) appendJSON(dst []byte) ([]byte, error) {
	o := beginItem(dst, ItemToolCall, c.ID)
	o.str("status", string(done(c.Status)))
	o.str("call_id", c.CallID)
	o.str("name", c.Name)
	o.str("arguments", c.Arguments)
	o.value("result", rawOr(c.Result, nullJSON))
	o.str("output", c.Output)
	if len(c.Media) > 0 {
		list(o, "media", c.Media)
	}
	o.optional("round", c.Round)
	o.optional("artifact_dir", c.ArtifactDir)
	return o.end()
}

func (i *OpaqueItem) appendJSON(dst []byte) ([]byte, error) {
	b, err := marshal(i.Raw)
	return append(dst, b...), err
}

// beginItem opens an item; an id that is "" is absent.
func beginItem(dst []byte, itemType, id string) *object {
	o := begin(dst)
	o.str("type", itemType)
	o.optional("id", id)
	return o
}

// done gives items that lack a status, as items of clients do, the one they have.
func done(s ItemStatus) ItemStatus {
	if s == "" {
		return ItemCompleted
	}
	return s
}
