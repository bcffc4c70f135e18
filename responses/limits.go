package responses

// MaxRequest bounds the body of a request, in bytes, at the server and at the
// client alike: the largest input_file is 32 MiB of base64, and a request may
// hold more than one.
const MaxRequest = 96 << 20
