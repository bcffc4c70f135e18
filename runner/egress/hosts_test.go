package egress

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

func TestEntries(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"example.com": "example.com", "Example.COM": "example.com", "example.com.": "example.com",
		"*.Example.com.": "*.example.com",
		"bücher.example": "xn--bcher-kva.example", "BÜCHER.example": "xn--bcher-kva.example",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "ｅxample。com": "example.com",
		"93.184.216.34": "93.184.216.34", "2606:2800:220:1:0::1": "2606:2800:220:1::1",
		"r3---sn-abc.example.com": "r3---sn-abc.example.com",
		"*.user.github.io":        "*.user.github.io", "github.io": "github.io", "*.amazonaws.com": "*.amazonaws.com",
		"1.example.com": "1.example.com", "0x7f.example.com": "0x7f.example.com",
		// refused
		"": "", "*": "", "*.": "", "*.com": "", "*.co.uk": "", "*.*.example.com": "", "a.*.example.com": "",
		"*example.com": "", "localhost": "", "com": "",
		"http://example.com": "", "example.com/": "", "example.com:443": "", "user@example.com": "",
		"a b.example.com": "", "a\x00.example.com": "", "example.com\n": "", " example.com": "",
		".example.com": "", "example..com": "", "example.com..": "", "-a.example.com": "", "a-.example.com": "",
		"a_b.example.com": "", "xn--a.example.com": "", "xn--\u00fc.example.com": "",
		strings.Repeat("a", 64) + ".example.com": "", strings.Repeat("a.", 130) + "com": "",
		"a\u0301\u200b.exa\u00admple.com\u2028": "",
		"127.1":                                 "", "2130706433": "", "0x7f.1": "", "0x7f000001": "", "0177.0.0.1": "",
		"1.2.3.04": "", "1.2.3.4.": "",
		"1.2.3.256": "", "example.1": "", "example.0x1": "", "１２７.0.0.1": "",
		"10.0.0.1": "", "127.0.0.1": "", "169.254.169.254": "", "::1": "", "[2606:2800:220:1::1]": "",
		"::ffff:93.184.216.34": "", "fe80::1%eth0": "", "fd00:ec2::254": "", "*.93.184.216.34": "",
	} {
		h, err := newHosts([]string{entry})
		if want == "" {
			if !state.IsCode(err, CodeInvalidHost) {
				t.Errorf("%q became %v, %v", entry, h, err)
			}
		} else if err != nil || !slices.Equal(h.entries, []string{want}) {
			t.Errorf("%q became %v, %v; want %q", entry, h, err, want)
		}
	}
}

// Companies let anyone have a name below some of theirs, as registries do. No
// wildcard reaches across such a name.
func TestPrivateSuffixes(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"github.io", "s3.amazonaws.com", "blogspot.com", "herokuapp.com", "pages.dev",
		"workers.dev", "vercel.app", "web.app", "azurewebsites.net",
		"compute.amazonaws.com", "kawasaki.jp", "co.uk", "GitHub.IO."} {
		if _, err := newHosts([]string{"*." + suffix}); !state.IsCode(err, CodeInvalidHost) ||
			!strings.Contains(err.Error(), "different people") {
			t.Errorf("*.%s: %v", suffix, err)
		}
		if _, err := newHosts([]string{"own." + suffix}); err != nil {
			t.Errorf("own.%s: %v", suffix, err)
		}
	}
	h, err := newHosts([]string{"*.amazonaws.com", "own.s3.amazonaws.com"})
	expect.NoError(t, err)
	for host, want := range map[string]bool{"own.s3.amazonaws.com": true, "sts.amazonaws.com": true,
		"other.s3.amazonaws.com": false, "s3.amazonaws.com": false, "a.b.other.s3.amazonaws.com": false} {
		if h.allows(host) != want {
			t.Errorf("%s is allowed: %v", host, !want)
		}
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	h, err := newHosts([]string{"example.com", "*.example.org", "bücher.example", "93.184.216.34",
		"2606:2800:220:1::1"})
	expect.NoError(t, err)
	for authority, want := range map[string]bool{
		"example.com": true, "EXAMPLE.com": true, "example.com.": true, "example.com:443": true, "a.example.org": true,
		"a.b.example.org": true, "xn--bcher-kva.example": true,
		"XN--BCHER-KVA.example": true, "93.184.216.34": true, "[2606:2800:220:1::1]:443": true,
		"[2606:2800:0220:0001::1]": true,
		"a.example.com":            false, "example.com.evil.net": false, "evil-example.com": false,
		"evilexample.com": false,
		"example.org":     false, ".example.org": false, "a..example.org": false,
		"xexample.org": false, "example.com..": false, "example.com.:443.": true, "example.com\x00.evil.net": false,
		"example.com%00.evil.net": false, "example.com#.evil.net": false,
		"evil.net#example.com": false, "example.com@evil.net": false, "evil.net@example.com": false,
		"example.com\\.evil.net": false, "example.com evil.net": false, "bücher.example": false, "ｅxample.com": false,
		"example。com": false, "[example.com]": false, "[93.184.216.34]": false, "[::ffff:93.184.216.34]": false,
		"[2606:2800:220:1::1%1]": false, "[2606:2800:220:1::1]evil.net": false,
		"[2606:2800:220:1::1": false, "2606:2800:220:1::1": false, "93.184.216.34.": false, "1572395042": false,
		"0x5db8d822": false, "93.12113954": false, "0135.184.216.34": false, "": false, ".": false,
		"*.example.org":         false,
		"xn--bcher-kvb.example": false, "xn--example-.com": false,
	} {
		host, _, err := parseAuthority(authority)
		if got := err == nil && h.allows(host); got != want {
			t.Errorf("%q is read as %q (%v) and allowed: %v, want %v", authority, host, err, got, want)
		}
	}
}

// An allowed name is on the list byte for byte, or below an entry of it, and
// parsing it again does not change it.
func FuzzAllows(f *testing.F) {
	for _, s := range []string{"example.com", "a.example.org.", "EXAMPLE.com:443", "[2606:2800:220:1::1]:443",
		"evil-example.com", "xn--bcher-kva.example", "127.1", "example.com\x00.x.org"} {
		f.Add(s)
	}
	h, err := newHosts([]string{"example.com", "*.example.org", "93.184.216.34"})
	expect.NoError(f, err)
	f.Fuzz(func(t *testing.T, authority string) {
		host, _, err := parseAuthority(authority)
		if err != nil {
			return
		}
		if strings.ContainsFunc(host, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-.:", r)
		}) {
			t.Errorf("%q became %q", authority, host)
		}
		if h.allows(host) && host != "example.com" && host != "93.184.216.34" &&
			!(strings.HasSuffix(host, ".example.org") && len(host) > len(".example.org")) {
			t.Errorf("%q is allowed as %q", authority, host)
		}
		again := host
		if strings.Contains(host, ":") {
			again = "[" + host + "]"
		}
		if same, _, err := parseAuthority(again); err != nil || same != host {
			t.Errorf("%q becomes %q when it is read again: %v", host, same, err)
		}
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	a := newAddresses()
	a.local = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("11.22.33.44"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for addr, open := range map[string]bool{
		"93.184.216.34": true, "1.1.1.1": true, "100.63.255.255": true, "100.128.0.1": true, "172.15.0.1": true,
		"172.32.0.1": true, "11.22.33.45": true, "168.63.129.17": true, "198.20.0.1": true, "223.255.255.255": true,
		"2606:4700::1111": true, "2001:4860::8888": true, "64:ff9b::5db8:d822": true, "::ffff:93.184.216.34": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "100.64.0.1": false, "100.100.100.200": false,
		"127.0.0.1": false, "127.255.255.255": false, "169.254.169.254": false, "169.254.170.2": false,
		"172.16.0.1": false, "172.31.255.255": false, "192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false,
		"192.168.1.1": false, "198.18.0.1": false, "198.19.255.255": false, "198.51.100.1": false,
		"203.0.113.1": false, "224.0.0.1": false, "239.255.255.250": false, "240.0.0.1": false,
		"255.255.255.255": false, "168.63.129.16": false, "11.22.33.44": false,
		"::": false, "::1": false, "::7f00:1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false,
		"::ffff:11.22.33.44": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false,
		"64:ff9b:1::5db8:d822": false,
		"100::1":               false, "2001::1": false, "2001:2::1": false, "2001:db8::1": false,
		"2002:7f00:1::1":    false,
		"2002:5db8:d822::1": false, "3fff::1": false, "fc00::1": false, "fd00:ec2::254": false, "fe80::1": false,
		"fe80::1%1":            false,
		"2606:4700::1111%eth0": false, "fec0::1": false, "ff02::1": false, "4000::1": false, "::ffff:0:7f00:1": false,
	} {
		if why := a.refuse(netip.MustParseAddr(addr)); (why == "") != open {
			t.Errorf("%s: %q, want open: %v", addr, why, open)
		}
	}
	if a.refuse(netip.Addr{}) == "" {
		t.Error("no address is open")
	}
	a.local = func() ([]net.Addr, error) { return nil, net.ErrClosed }
	if a.refuse(netip.MustParseAddr("1.1.1.1")) == "" {
		t.Error("an address is open that could not be judged")
	}
}
