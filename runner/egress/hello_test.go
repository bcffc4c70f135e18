package egress

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"holon/test/expect"
)

// helloOf is what a client of crypto/tls sends first.
func helloOf(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	spoken := &mute{}
	_ = tls.Client(spoken, config).Handshake() // no server answers
	if spoken.Len() == 0 {
		t.Fatal("the client said nothing")
	}
	return spoken.Bytes()
}

// mute is a connection that takes everything and says nothing.
type mute struct {
	bytes.Buffer
	net.Conn
}

func (m *mute) Read([]byte) (int, error)    { return 0, io.EOF }
func (m *mute) Write(p []byte) (int, error) { return m.Buffer.Write(p) }
func (m *mute) Close() error                { return nil }

// cut puts the message of one record into records of at most size bytes.
func cut(record []byte, size int) (out []byte) {
	for body := record[5:]; len(body) > 0; {
		n := min(size, len(body))
		out = append(out, record[0], record[1], record[2], byte(n>>8), byte(n))
		out, body = append(out, body[:n]...), body[n:]
	}
	return out
}

func TestHello(t *testing.T) {
	t.Parallel()
	named := func(name string) []byte { return helloOf(t, &tls.Config{ServerName: name}) }
	plain := named("www.example.com")
	old := helloOf(t, &tls.Config{ServerName: "www.example.com", MaxVersion: tls.VersionTLS12})
	long := helloOf(t, &tls.Config{ServerName: "www.example.com", NextProtos: manyProtos(2000)})
	for _, tc := range []struct {
		name, host string
		raw        []byte
		reason     string
	}{
		{"TLS 1.3", "www.example.com", plain, ""},
		{"TLS 1.2", "www.example.com", old, ""},
		{"cut into records", "www.example.com", cut(plain, 7), ""},
		{"one byte a record", "www.example.com", cut(old, 1), ""},
		{"long", "www.example.com", long, ""},
		{"early data behind it", "www.example.com", append(bytes.Clone(plain), "\x17\x03\x03\x00\x02hi"...), ""},
		{"no name for an address", "93.184.216.34", helloOf(t, &tls.Config{InsecureSkipVerify: true}), ""},
		{"another name", "www.example.com", named("evil.example.net"), reasonNameMismatch},
		{"a name below", "example.com", plain, reasonNameMismatch},
		{"a name above", "www.example.com", named("example.com"), reasonNameMismatch},
		{"no name", "www.example.com", helloOf(t, &tls.Config{InsecureSkipVerify: true}), reasonNameMismatch},
		{"a name for an address", "93.184.216.34", plain, reasonNameMismatch},
		{"in upper case", "www.example.com",
			bytes.ReplaceAll(plain, []byte("www.example.com"), []byte("WWW.Example.Com")), ""},
		{"NUL in the name", "www.example.com",
			bytes.ReplaceAll(plain, []byte("www.example.com"), []byte("www\x00example.com")), reasonNameMismatch},
		{"hidden", "www.example.com", helloOf(t, hiding(t, "www.example.com")), reasonHiddenName},
		{"HTTP", "www.example.com", []byte("GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n"), reasonNotTLS},
		{"SSH", "www.example.com", []byte("SSH-2.0-OpenSSH_9.2\r\n"), reasonNotTLS},
		{"half of it", "www.example.com", plain[:len(plain)/2], reasonNotTLS},
		{"nothing", "www.example.com", nil, reasonNotTLS},
		{"another message", "www.example.com", []byte("\x16\x03\x01\x00\x04\x02\x00\x00\x00"), reasonNotTLS},
		{"an alert", "www.example.com", []byte("\x15\x03\x01\x00\x02\x02\x28"), reasonNotTLS},
		{"without end", "www.example.com", bytes.Repeat([]byte("\x16\x03\x01\x00\x00"), maxHello), reasonNotTLS},
		{"a huge message", "www.example.com",
			append([]byte("\x16\x03\x01\x40\x00\x01\xff\xff\xff"), make([]byte, 16<<10)...), reasonNotTLS},
	} {
		for way, reader := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader {
			return r
		}, "bytes": iotest.OneByteReader} {
			got, no := readHello(reader(bytes.NewReader(tc.raw)), tc.host)
			reason := ""
			if no != nil {
				reason = no.reason
			}
			if reason != tc.reason {
				t.Errorf("%s (%s): %q, want %q: %+v", tc.name, way, reason, tc.reason, no)
			}
			if no == nil && !bytes.HasPrefix(tc.raw, got) {
				t.Errorf("%s (%s): other bytes were passed on", tc.name, way)
			}
		}
	}
}

func manyProtos(n int) (list []string) {
	for range n {
		list = append(list, strings.Repeat("p", 20))
	}
	return list
}

// hiding is a client that hides the name it asks for (Encrypted Client Hello).
func hiding(t testing.TB, outer string) *tls.Config {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	expect.NoError(t, err)
	public := key.PublicKey().Bytes()
	config := append([]byte{1, 0, 0x20, 0, byte(len(public))}, public...) // id, DHKEM(X25519, HKDF-SHA256), key
	config = append(config, 0, 4, 0, 1, 0, 1, 32, byte(len(outer)))       // HKDF-SHA256 with AES-128-GCM, padding
	config = append(append(config, outer...), 0, 0)                       // public name, no extensions
	n := len(config)
	list := append([]byte{byte((n + 4) >> 8), byte(n + 4), 0xfe, 0x0d, byte(n >> 8), byte(n)}, config...)
	return &tls.Config{ServerName: "evil.example.net", EncryptedClientHelloConfigList: list,
		MinVersion: tls.VersionTLS13}
}

// The beginning of a tunnel is passed on unchanged or not at all, and not more
// than the limit is read.
func FuzzHello(f *testing.F) {
	hello := helloOf(f, &tls.Config{ServerName: "www.example.com"})
	f.Add(hello)
	f.Add(cut(hello, 50))
	f.Add(helloOf(f, hiding(f, "www.example.com")))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		got, no := readHello(r, "www.example.com")
		if read := len(raw) - r.Len(); read > maxHello {
			t.Errorf("%d bytes were read", read)
		}
		if no == nil && (!bytes.HasPrefix(raw, got) ||
			!bytes.Contains(bytes.ToLower(raw), []byte("www.example.com")) && bytes.Count(raw, []byte{22, 3}) < 2) {
			t.Errorf("passed on: %q of %q", got, raw)
		}
	})
}
