package egress

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"holon/state"
)

// CodeInvalidPrivateHost is the code of an entry that Options.Private must not have.
const CodeInvalidPrivateHost state.Code = "invalid_private_host"

// privateHosts are what an operator opened of its own network, by host:port. No name of them is resolved: the address
// is part of the entry, so that no one else decides where it leads.
type privateHosts map[string]netip.Addr

// parsePrivate reads entries HOST:PORT=ADDRESS, or ADDRESS:PORT.
func parsePrivate(entries []string) (privateHosts, error) {
	if len(entries) > maxEntries {
		return nil, invalidPrivate(fmt.Sprintf("%d hosts, at most %d are allowed", len(entries), maxEntries), nil)
	}
	list := make(privateHosts)
	for _, entry := range entries {
		authority, addr, err := parsePrivateEntry(entry)
		if err == nil && list[authority].IsValid() && list[authority] != addr {
			err = errors.New("it has two addresses")
		}
		if err != nil {
			return nil, invalidPrivate(fmt.Sprintf("%.200q: %v", entry, err), err)
		}
		list[authority] = addr
	}
	return list, nil
}

// closedAddress is the error of an address that no entry opens, by what it is; "" for a public one.
type closedAddress string

func (why closedAddress) Error() string { return "the address is " + cmp.Or(string(why), "public") }

func invalidPrivate(what string, cause error) error {
	e := &state.Error{Code: CodeInvalidPrivateHost, Param: "private_hosts", Message: what,
		Hint: "write HOST:PORT=ADDRESS, such as mirror.corp.example:8081=10.1.2.3"}
	if why, ok := errors.AsType[closedAddress](cause); ok {
		e.Hint = "give an address of a private network"
		if why == "" {
			e.Hint = "open the host with --allow-host"
		}
	}
	return e
}

func parsePrivateEntry(entry string) (authority string, addr netip.Addr, err error) {
	named, literal, mapped := strings.Cut(entry, "=")
	if strings.Contains(named, "://") {
		return "", addr, errors.New("it is a URL")
	}
	host, port, err := parseAuthority(named)
	if err != nil {
		return "", addr, err
	}
	if port == "" {
		return "", addr, errors.New("it has no port")
	}
	if _, ok := portOf(port); !ok {
		return "", addr, fmt.Errorf("%q is not a port", port)
	}
	if !mapped {
		literal = host
	}
	if addr, err = parseLiteral(literal); err != nil && !mapped {
		return "", addr, errors.New("it has a name and no address")
	}
	if err != nil {
		return "", addr, fmt.Errorf("%q is not an address of four numbers, or of IPv6", literal)
	}
	if literal, err := parseLiteral(host); err == nil && literal != addr {
		return "", addr, errors.New("it names two addresses")
	}
	if why := newAddresses().special.of(addr); !slices.Contains(openable, why) {
		return "", addr, closedAddress(why)
	}
	return net.JoinHostPort(host, port), addr, nil
}

// openable are the kinds of addresses that an entry may have.
var openable = []string{private, carrierNAT, loopback}

// list returns the entries as they are compared, sorted.
func (p privateHosts) list() []string {
	out := make([]string, 0, len(p))
	for _, authority := range slices.Sorted(maps.Keys(p)) {
		out = append(out, authority+"="+p[authority].String())
	}
	return out
}

// at returns the address that is open for a host at a port.
func (p privateHosts) at(host, port string) (netip.Addr, bool) {
	addr, ok := p[net.JoinHostPort(host, port)]
	return addr, ok
}
