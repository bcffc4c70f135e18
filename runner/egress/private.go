package egress

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
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
		return nil, invalidPrivate(fmt.Sprintf("%d hosts, at most %d are allowed", len(entries), maxEntries))
	}
	list := make(privateHosts)
	for _, entry := range entries {
		authority, addr, err := parsePrivateEntry(entry)
		if err == nil && list[authority].IsValid() && list[authority] != addr {
			err = errors.New("it has two addresses")
		}
		if err != nil {
			return nil, invalidPrivate(fmt.Sprintf("%.200q: %v", entry, err))
		}
		list[authority] = addr
	}
	return list, nil
}

func invalidPrivate(what string) error {
	return &state.Error{Code: CodeInvalidPrivateHost, Param: "private_hosts", Message: what,
		Hint: "write HOST:PORT=ADDRESS, such as mirror.corp.example:8081=10.1.2.3"}
}

func parsePrivateEntry(entry string) (authority string, addr netip.Addr, err error) {
	named, literal, mapped := strings.Cut(entry, "=")
	host, port, err := parseAuthority(named)
	if err != nil {
		return "", addr, err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", addr, errors.New("it has no port")
	}
	if !mapped {
		literal = host
	}
	if addr, err = parseLiteral(literal); err != nil {
		return "", addr, errors.New("its address is not given as four numbers, or as IPv6")
	}
	if literal, err := parseLiteral(host); err == nil && literal != addr {
		return "", addr, errors.New("it names two addresses")
	}
	if why := newAddresses().special.of(addr); !slices.Contains(openable, why) {
		if why == "" {
			return "", addr, errors.New("the address is public; open the host with --allow-host")
		}
		return "", addr, fmt.Errorf("the address is %s", why)
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
