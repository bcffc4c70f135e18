package providers_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"holon/internal/providers"
	"holon/test/expect"
)

func TestBuiltin(t *testing.T) {
	var last string
	for _, p := range providers.Builtin() {
		if p.Name <= last {
			t.Errorf("%s after %s", p.Name, last)
		}
		last = p.Name
		u, err := url.Parse(p.BaseURL)
		loopback := err == nil && u.Hostname() == "127.0.0.1"
		if err != nil || p.BaseURL != "" && !loopback && u.Scheme != "https" || strings.HasSuffix(p.BaseURL, "/") {
			t.Errorf("%s: %s", p.Name, p.BaseURL)
		}
		if p.KeyOptional != (loopback || p.Name == "responses") {
			t.Errorf("%s: a server on this machine wants no key, all others do", p.Name)
		}
		expect.Equal(t, p.Name+": providers.ValidName(p.Name)", providers.ValidName(p.Name), true)
		expect.Equal(t, p.Name+": p.Contract.Known()", p.Contract.Known(), true)
		expect.Equal(t, p.Name+": it has a path", p.Contract.Path() != "", true)
		if found, ok := providers.Find(p.Name); !ok || found.BaseURL != p.BaseURL {
			t.Errorf("%s is not found", p.Name)
		}
	}
	if _, ok := providers.Find("acme"); ok {
		t.Error("a provider that is not built in is found")
	}
	if providers.Contract("aws_bedrock").Known() || providers.Contract("aws_bedrock").Path() != "" {
		t.Error("an unknown contract has routes")
	}
}

func TestNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"acme": true, "my-lab.two_3": true, strings.Repeat("a", 64): true,
		"": false, "Acme": false, "1st": false, "-x": false, "a/b": false, "a b": false, "ä": false,
		strings.Repeat("a", 65): false,
	} {
		if providers.ValidName(name) != valid {
			t.Errorf("ValidName(%q) = %t", name, !valid)
		}
	}
	if got := providers.Setting("my-lab.two", "API_KEY"); got != "MY_LAB_TWO_API_KEY" {
		t.Error(got)
	}
	for ref, want := range map[string]string{"a/b": "a b", "a/b/c": "a b/c", "a/": "", "/b": "", "a": "", "": ""} {
		provider, name, ok := providers.SplitRef(ref)
		if ok != (want != "") || ok && provider+" "+name != want {
			t.Errorf("SplitRef(%q) = %q, %q, %t", ref, provider, name, ok)
		}
	}
}

func TestChatGPTAccount(t *testing.T) {
	token := func(claims string) string { return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s" }
	for in, want := range map[string]string{
		token(`{"https://api.openai.com/auth":{"chatgpt_account_id":"acct_1"}}`): "acct_1",
		token(`{"https://api.openai.com/auth":{"chatgpt_account_id":"a\nb"}}`):   "",
		token(`{}`): "", "sk-key": "", "a.b.c": "", "": "",
	} {
		expect.Equal(t, "ChatGPTAccount", providers.ChatGPTAccount(in), want)
	}
}
