package egress_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"holon/runner/egress"
	"holon/state"
	"holon/test/expect"
)

// A host of the operator's network is reached at its port and its address, whatever its name resolves to, and nothing
// else of that network is.
func TestPrivateHosts(t *testing.T) {
	t.Parallel()
	names := map[string][][]netip.Addr{"example.com.": {addrs("10.9.9.9")}, "other.example.org.": {addrs("10.1.2.3")},
		"www.example.com.": {addrs("10.1.2.3")}}
	r := newRigOf(t, names, egress.Options{Allow: []string{"other.example.org", "www.example.com"},
		Private: []string{"Mirror.Corp.Example:8081=10.1.2.3", "example.com:8443=10.1.2.3", "192.168.7.7:8081",
			"[fd12::1]:8081", "example.com:443=127.0.0.1"}})
	for url, want := range map[string]string{
		"http://mirror.corp.example:8081/a?b": "200 mirror.corp.example:8081 /a?b 0\n",
		"https://example.com:8443/x":          "200 example.com:8443 /x 0\n",
		"https://example.com/y":               "200 example.com /y 0\n",
		"http://192.168.7.7:8081/":            "200 192.168.7.7:8081 / 0\n",
		"http://[fd12::1]:8081/":              "200 [fd12::1]:8081 / 0\n",
		// another port, another name for the address, the address itself, and a listed name that leads there
		"http://mirror.corp.example/":      "403",
		"http://mirror.corp.example:8082/": "403", "http://example.com/": "403", "http://sub.mirror.corp.example:8081/": "403",
		"http://10.1.2.3:8081/": "403", "http://other.example.org:8081/": "403", "http://www.example.com/": "403",
		"http://10.1.2.3/": "403", "http://mirror.corp.example:08081/": "403", "http://192.168.7.8:8081/": "403",
	} {
		got, err := r.get(r.client(""), url)
		if err != nil || got != want && (want != "403" || !strings.HasPrefix(got, "403 ")) {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	if got := r.say("GET http://mirror.corp.example:8081/ HTTP/1.1\r\nHost: mirror.corp.example:80\r\n\r\n"); status(got)[:3] != "400" {
		t.Errorf("another port in Host: %.100q", got)
	}
	for _, address := range r.net.dials() {
		if !slices.Contains([]string{"10.1.2.3:8081", "10.1.2.3:8443", "127.0.0.1:443", "192.168.7.7:8081",
			"[fd12::1]:8081"}, address) {
			t.Errorf("%s was dialled", address)
		}
	}
	for _, f := range r.close() {
		if d := f.Decision; d != nil && d.Verdict == "allowed" && d.Address == "" {
			t.Errorf("a decision without its address: %+v", d)
		}
	}
}

// An entry has one host, one port and one address that is of no public network and no service of a cloud.
func TestPrivateEntries(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "a.example", "a.example=10.0.0.1", "a.example:0=10.0.0.1", "a.example:080=10.0.0.1",
		"a.example:99999=10.0.0.1", "a.example:x=10.0.0.1", "a.example:80=", "a.example:80=b.example", "a.example:80",
		"a.example:80=93.184.216.34", "a.example:80=169.254.169.254", "a.example:80=100.100.100.200",
		"a.example:80=fd00:ec2::254", "a.example:80=0.0.0.0", "a.example:80=224.0.0.1", "a.example:80=fe80::1",
		"a.example:80=10.1", "a.example:80=::ffff:10.0.0.1", "10.0.0.1:80=10.0.0.2", "*.example:80=10.0.0.1",
		"mirror:80=10.0.0.1", "a.example:80=10.0.0.0/8", "http://a.example:80=10.0.0.1", "a.example:80=10.0.0.1=10.0.0.1",
		"[fd12::1]80"} {
		_, err := egress.New(egress.Options{Private: []string{entry}})
		if !state.IsCode(err, egress.CodeInvalidPrivateHost) {
			t.Errorf("%q: %v", entry, err)
		}
	}
	for entry, want := range map[string]string{
		"a.example=10.0.0.1": "it has no port", "a.example:080=10.0.0.1": `"080" is not a port`,
		"a.example:80": "a name and no address", "a.example:80=10.1": `"10.1" is not an address`,
		"http://a.example:80=10.0.0.1": "is a URL", "a.example:80=93.184.216.34": "public; open the host with --allow-host",
		"a.example:80=fe80::1": "link-local; give an address of a private network",
	} {
		_, err := egress.New(egress.Options{Private: []string{entry}})
		e, _ := errors.AsType[*state.Error](err)
		if e == nil || !strings.Contains(e.Message+"; "+e.Hint, want) {
			t.Errorf("%q: %+v, want %q", entry, e, want)
		}
	}
	p, err := egress.New(egress.Options{Private: []string{"B.example.:80=10.0.0.1", "a.example:81=100.64.0.1",
		"10.0.0.1:82", "a.example:81=100.64.0.1"}})
	expect.NoError(t, err)
	expect.Equal(t, "entries", strings.Join(p.Private(), " "),
		"10.0.0.1:82=10.0.0.1 a.example:81=100.64.0.1 b.example:80=10.0.0.1")
	again, err := egress.New(egress.Options{Private: p.Private()})
	expect.NoError(t, err)
	expect.Equal(t, "read again", strings.Join(again.Private(), " "), strings.Join(p.Private(), " "))
	if _, err = egress.New(egress.Options{Private: []string{"a.example:81=10.0.0.1", "A.example:81=10.0.0.2"}}); err == nil {
		t.Error("one host has two addresses at a port")
	}
}
