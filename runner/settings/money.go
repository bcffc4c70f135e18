package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// Money is an amount in millionths of the currency of the prices. It is read and written as a decimal number,
// never as a floating-point one.
type Money int64

const million = 1_000_000

// UnmarshalText reads a decimal number: digits, and after a point up to six more.
func (m *Money) UnmarshalText(text []byte) error {
	whole, part, point := strings.Cut(string(text), ".")
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", max(0, 6-len(part))), 10, 64)
	if whole == "" || point && part == "" || len(part) > 6 || len(whole) > 12 ||
		strings.Trim(whole+part, "0123456789") != "" || err != nil {
		return errors.New("is not an amount with at most six decimals; write for example 2.50")
	}
	*m = Money(n)
	return nil
}

// String returns the amount with as many decimals as it needs.
func (m Money) String() string {
	text := fmt.Sprintf("%d.%06d", m/million, m%million)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// MarshalJSON writes the amount as a number.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// Size is a number of bytes as a person writes it: 512m, 4g; "" for none.
type Size string

// UnmarshalText accepts what Bytes can read.
func (s *Size) UnmarshalText(text []byte) error {
	*s = Size(text)
	_, err := s.Bytes()
	return err
}

// Bytes returns the number, 0 for none. The error says how to write a size.
func (s Size) Bytes() (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := units.RAMInBytes(string(s))
	if err != nil || n <= 0 {
		return 0, errors.New("is not a size; write for example 512m or 4g")
	}
	return n, nil
}
