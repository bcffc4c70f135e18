package responses

// MaxRequest bounds the body of a request, in bytes, at the server and at the
// client alike: the largest input_file is 32 MiB of base64, and a request may
// hold more than one.
const MaxRequest = 96 << 20

// Bounds of a response, in bytes of JSON. agentd ends a turn whose model says more
// than MaxOutput (docs/reference/run.md); a client reads no event or answer of more than
// MaxResponse, nor one with more than maxValues values, since each takes a multiple
// of its text when it is decoded.
const (
	MaxOutput   = 4 << 20
	MaxResponse = 8 << 20
	maxValues   = 100_000
)

// Bounds of request fields (Open Responses, CreateResponseBody and the schemas
// of its items), in characters unless it says otherwise. They are what the
// server's OpenAPI document says too.
const (
	maxInputChars    = 10 << 20 // of one text, wherever it stands
	maxImageChars    = 20 << 20 // of an image_url
	maxFileChars     = 32 << 20 // of a file_data
	maxMetadataPairs = 16       // pairs
	maxMetadataKey   = 64
	maxMetadataValue = 512
	maxCacheKey      = 64   // of prompt_cache_key and safety_identifier
	maxShortName     = 64   // of service_tier, reasoning.effort and the like
	maxToolName      = 64   // of the name of a function
	maxTools         = 1024 // functions and others
	maxAllowedTools  = 128  // names
	maxCallID        = 64
	maxArtifactDir   = 4096
	maxLogprobs      = 20 // top_logprobs
	maxTemperature   = 2
	maxPenalty       = 2   // of presence_penalty and frequency_penalty, and the least with a minus
	maxID            = 128 // of every id that a caller may choose: file names built from ids stay far below NAME_MAX
)
