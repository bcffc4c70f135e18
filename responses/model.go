package responses

// Model is a model as OpenAI's API lists it.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`  // model
	Created int64  `json:"created"` // seconds since the epoch, 0 where it is not known
	OwnedBy string `json:"owned_by"`
}

// ModelList is the answer of GET /models.
type ModelList struct {
	Object string  `json:"object"` // list
	Data   []Model `json:"data"`   // never nil
}
