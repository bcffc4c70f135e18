package openapi

// Version of the OpenAPI specification that documents follow.
const Version = "3.1.0"

// Document is an OpenAPI document.
type Document struct {
	OpenAPI    string                           `json:"openapi"`
	Info       Info                             `json:"info"`
	Servers    []Server                         `json:"servers"`
	Tags       []Tag                            `json:"tags"`
	Paths      map[string]map[string]*Operation `json:"paths"` // by path, then by method in lower case
	Components Components                       `json:"components"`
	Security   []map[string][]string            `json:"security,omitempty"`
}

// Info says what the document is about.
type Info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

// Server is where the paths begin.
type Server struct {
	URL         string `json:"url"`
	Description string `json:"description"`
}

// Tag is a group of operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Components are what the operations refer to.
type Components struct {
	Schemas         map[string]*Schema `json:"schemas"`
	Headers         map[string]*Header `json:"headers"`
	SecuritySchemes map[string]any     `json:"securitySchemes"`
}

// Operation is a method of a path.
type Operation struct {
	ID          string             `json:"operationId"`
	Tags        []string           `json:"tags"`
	Summary     string             `json:"summary"`
	Description string             `json:"description,omitempty"`
	Parameters  []Parameter        `json:"parameters,omitempty"`
	Body        *Body              `json:"requestBody,omitempty"`
	Answers     map[string]*Answer `json:"responses"` // by status
	WebSocket   *WebSocket         `json:"x-openresponses-websocket,omitempty"`
}

// Parameter is a part of a path, a query or the headers of a request.
type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Required    bool    `json:"required,omitempty"`
	Description string  `json:"description,omitempty"`
	Schema      *Schema `json:"schema"`
}

// Body is the body of a request.
type Body struct {
	Description string           `json:"description,omitempty"`
	Required    bool             `json:"required,omitempty"`
	Content     map[string]Media `json:"content"` // by media type
}

// Media is content of one type. Of a media type that is a sequence of JSON
// values, the schema is that of each value.
type Media struct {
	Schema *Schema `json:"schema,omitempty"`
}

// Answer is what comes with a status.
type Answer struct {
	Description string             `json:"description"`
	Headers     map[string]*Header `json:"headers,omitempty"`
	Content     map[string]Media   `json:"content,omitempty"` // by media type
}

// Header is a header of an answer.
type Header struct {
	Ref         string  `json:"$ref,omitempty"`
	Description string  `json:"description,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

// WebSocket describes what travels after an upgrade, for which OpenAPI has no
// words. It stands where the protocol's own document has it.
type WebSocket struct {
	Description   string  `json:"description"`
	ClientMessage *Schema `json:"clientMessage"`
	ServerMessage *Schema `json:"serverMessage"`
	ErrorMessage  *Schema `json:"errorMessage"`
}

// Query is a parameter of a query.
func Query(name, description string, schema *Schema) Parameter {
	return Parameter{Name: name, In: "query", Description: description, Schema: schema}
}
