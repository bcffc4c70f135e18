package responses

// Directive is what a result of the host's tools says about the rest of its turn. Of other servers it is ignored.
type Directive struct {
	// Reminder is the text of the turn's Reminder from then on; nil: no change.
	Reminder *string `json:"reminder,omitzero"`
	// Hidden are texts of the result that only the model may read: they are kept out of records and answers.
	Hidden []string `json:"hidden,omitempty"`
	// WorkingDirectory is where the calls that begin later in the turn work: an existing directory below the
	// server's root of working trees, as the server sees it; "": no change.
	WorkingDirectory string `json:"working_directory,omitzero"`
}
