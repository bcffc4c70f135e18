package egress

import (
	"net"
	"net/netip"
)

// addresses is the policy on addresses: any address that is not global unicast of
// the public network is refused, regardless of the name that resolved to it.
type addresses struct {
	special specials
	local   func() ([]net.Addr, error) // addresses of this machine
}

type special struct {
	prefix netip.Prefix
	what   string
}

type specials []special

// of says what addr is that is not global unicast of the public network, "" where nothing says so.
func (list specials) of(addr netip.Addr) string {
	for _, s := range list {
		if s.prefix.Contains(addr) {
			return s.what
		}
	}
	return ""
}

// Kinds of addresses that more than one place names.
const (
	private    = "private"
	loopback   = "loopback"
	carrierNAT = "shared (carrier NAT)"
)

// metadata is what a cloud tells its machines, credentials among it.
const metadata = "a metadata service"

func newAddresses() *addresses {
	a := &addresses{local: net.InterfaceAddrs}
	// The special-purpose registries of IANA, and where clouds keep services for
	// the machine that are public addresses by number only.
	for _, s := range []struct{ prefix, what string }{
		{"168.63.129.16/32", metadata}, {"100.100.100.200/32", metadata}, {"fd00:ec2::/32", metadata},
		{"fd20:ce::254/128", metadata}, // within the private ranges that follow
		{"0.0.0.0/8", "unspecified"}, {"10.0.0.0/8", private}, {"100.64.0.0/10", carrierNAT},
		{"127.0.0.0/8", loopback},
		{"169.254.0.0/16", "link-local"}, {"172.16.0.0/12", private}, {"192.0.0.0/24", "reserved"},
		{"192.0.2.0/24", "for documentation"},
		{"192.88.99.0/24", "a 6to4 relay"}, {"192.168.0.0/16", private}, {"198.18.0.0/15", "for benchmarks"},
		{"198.51.100.0/24", "for documentation"},
		{"203.0.113.0/24", "for documentation"}, {"224.0.0.0/4", "multicast"}, {"240.0.0.0/4", "reserved"},
		{"::/128", "unspecified"}, {"::1/128", loopback}, {"64:ff9b:1::/48", "translated"}, {"100::/64", "discarded"},
		{"2001::/32", "Teredo"}, {"2001::/23", "reserved"},
		{"2001:db8::/32", "for documentation"}, {"2002::/16", "6to4"}, {"3fff::/20", "for documentation"},
		{"fc00::/7", private}, {"fe80::/10", "link-local"},
		{"fec0::/10", "site-local"}, {"ff00::/8", "multicast"},
	} {
		a.special = append(a.special, special{netip.MustParsePrefix(s.prefix), s.what})
	}
	return a
}

// refuse says what addr is when it may not be reached, "" when it may.
func (a *addresses) refuse(addr netip.Addr) string {
	if addr.Zone() != "" {
		return "in a zone"
	}
	addr = addr.Unmap()
	if !addr.IsValid() {
		return "not an address"
	}
	if what := a.special.of(addr); what != "" {
		return what
	}
	if addr.Is6() {
		if inner, ok := translated(addr); ok {
			if why := a.refuse(inner); why != "" {
				return "translated to one that is " + why
			}
		} else if !netip.MustParsePrefix("2000::/3").Contains(addr) {
			return "not global unicast"
		}
	}
	if a.ours(addr) {
		return "this machine's own"
	}
	return ""
}

// translated returns the IPv4 address within one of the well-known NAT64 prefix.
func translated(addr netip.Addr) (netip.Addr, bool) {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(addr) {
		return netip.Addr{}, false
	}
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}

// ours reports whether addr is an address of this machine: many services there
// trust local clients. If the addresses can't be listed, every address is ours.
func (a *addresses) ours(addr netip.Addr) bool {
	list, err := a.local()
	if err != nil {
		return true
	}
	for _, l := range list {
		if prefix, err := netip.ParsePrefix(l.String()); err == nil && prefix.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}

// PublicOnly returns what says of an address what it is when it is not global unicast of the public network, "" when it
// is: the policy of the proxy, for other connections of the host.
func PublicOnly() func(netip.Addr) string { return newAddresses().refuse }
