// Package bounded reads bodies and files of others whole, up to a limit.
package bounded

import (
	"fmt"
	"io"
)

// TooLargeError says that what was read has more than Limit bytes.
type TooLargeError struct{ Limit int64 }

// Error implements error.
func (e *TooLargeError) Error() string { return fmt.Sprintf("it has more than %d bytes", e.Limit) }

// ReadAll reads r to its end. If there are more than limit bytes, it returns the first limit of them and a
// *TooLargeError, and reads no further than one byte beyond the limit.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return data[:limit], &TooLargeError{Limit: limit}
	}
	return data, err
}
