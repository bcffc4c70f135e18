package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"holon/state"
)

// CodeInvalidHost is the code of an entry that no list may have.
const CodeInvalidHost state.Code = "invalid_allow_host"

const (
	maxEntries = 1000
	maxName    = 253
)

// hosts is a checked allow-list.
type hosts struct {
	entries []string // normalised, sorted
	exact   map[string]bool
	below   []string // ".example.com": every name that ends so
}

func newHosts(entries []string) (*hosts, error) {
	if len(entries) > maxEntries {
		return nil, &state.Error{Code: CodeInvalidHost, Param: "--allow-host",
			Message: fmt.Sprintf("%d hosts, at most %d are allowed", len(entries), maxEntries),
			Hint:    "name a domain with *."}
	}
	h := &hosts{exact: make(map[string]bool)}
	for _, entry := range entries {
		rest, below := strings.CutPrefix(entry, "*.")
		name, err := parseEntry(rest, below)
		if err != nil {
			return nil, &state.Error{Code: CodeInvalidHost, Param: "--allow-host",
				Message: fmt.Sprintf("%.100q: %v", entry, err),
				Hint: "write a host such as example.com, or *.example.com for all names below it, without scheme, " +
					"port or path"}
		}
		if below {
			h.below = append(h.below, "."+name)
			name = "*." + name
		} else {
			h.exact[name] = true
		}
		h.entries = append(h.entries, name)
	}
	slices.Sort(h.entries)
	h.entries = slices.Compact(h.entries)
	return h, nil
}

// parseEntry normalises an entry; below says that it stood behind "*.".
func parseEntry(s string, below bool) (string, error) {
	if s == "*" {
		return "", errors.New("a list of hosts cannot be all hosts")
	}
	if addr, err := parseLiteral(s); err == nil && !below {
		if why := newAddresses().refuse(addr); why != "" {
			return "", fmt.Errorf("the address is %s", why)
		}
		return addr.String(), nil
	}
	ascii, err := profile().ToASCII(s)
	if err != nil && !isASCII(s) {
		return "", errors.New("is not a name that DNS can have")
	}
	if err != nil {
		ascii = s // parseName names its fault
	}
	name, err := parseName(ascii)
	if err != nil {
		return "", err
	}
	if below && (shared(name, name) || shared("any."+name, name)) {
		return "", fmt.Errorf("the names below %s belong to different people; name the host itself", name)
	}
	return name, nil
}

// shared reports whether the names below domain, or below a part of it that has
// host, belong to different people: a suffix of the public list, of registries
// (co.uk) and of private companies (github.io), is domain or lies between the two.
func shared(host, domain string) bool {
	suffix, _ := publicsuffix.PublicSuffix(host)
	return len(suffix) >= len(domain)
}

// allows reports whether the list has a host that parseName or parseLiteral
// returned. A name below *.amazonaws.com that is of s3.amazonaws.com, where anyone
// can have a bucket, has to be on the list itself.
func (h *hosts) allows(host string) bool {
	if h.exact[host] {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	return slices.ContainsFunc(h.below, func(suffix string) bool {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix) && !shared(host, suffix[1:])
	})
}

// parseName normalises a host name as a client sends it: ASCII letters, digits
// and hyphens, in lower case, without the dot that may end it, A-labels as they
// are if they are valid. A name that a program could read as an address is refused.
func parseName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxName {
		return "", fmt.Errorf("a host name has 1 to %d characters", maxName)
	}
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return "", errors.New("a part between dots has 1 to 63 characters")
		}
		if label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, func(r rune) bool {
			return !strings.ContainsRune(labelBytes, r)
		}) {
			return "", errors.New("a host name has only letters, digits, hyphens within and dots")
		}
	}
	if len(labels) < 2 {
		return "", errors.New("a name of one label is not opened")
	}
	// The rule of WHATWG's URLs: this is how 127.1, 0x7f.1 and 2130706433 are told from names.
	if last := strings.ToLower(labels[len(labels)-1]); strings.Trim(last, "0123456789") == "" ||
		strings.HasPrefix(last, "0x") {
		return "", errors.New("a name that ends in a number could be read as an address")
	}
	name, err := profile().ToASCII(s)
	if err != nil {
		return "", errors.New("a part that begins with xn-- is not valid")
	}
	return name, nil
}

const labelBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// parseLiteral reads an address in the one form that has no second reading:
// four decimal numbers, or IPv6 without a zone and without IPv4 in it.
func parseLiteral(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return netip.Addr{}, errors.New("is not an address in its plain form")
	}
	return addr, nil
}

// parseAuthority takes "host", "host:port" or "[address]:port" apart. port is ""
// when there is none; it is not checked.
func parseAuthority(s string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		inner, after, closed := strings.Cut(rest, "]")
		addr, err := parseLiteral(inner)
		if !closed || err != nil || !addr.Is6() {
			return "", "", errors.New("brackets hold an IPv6 address in its plain form")
		}
		if after != "" && after[0] != ':' {
			return "", "", errors.New("only a port may follow the brackets")
		}
		return addr.String(), strings.TrimPrefix(after, ":"), nil
	}
	name, port, _ := strings.Cut(s, ":")
	if addr, err := parseLiteral(name); err == nil { // four decimal numbers: no colon is left
		return addr.String(), port, nil
	}
	host, err = parseName(name)
	return host, port, err
}

// portOf reads a port in its plain form. One that is none is 0.
func portOf(s string) (port int, ok bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, false
	}
	return int(n), true
}

// profile is how names become A-labels: as browsers and resolvers do it, but
// that hyphens may stand anywhere within, as they do in real names.
func profile() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(true), idna.VerifyDNSLength(true),
		idna.CheckHyphens(false), idna.Transitional(false))
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7e })
}
