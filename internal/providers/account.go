package providers

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// ChatGPTAccount returns the account that a ChatGPT access token is for, which
// the Codex backend wants as well (AuthChatGPT); "" when the key is not such a
// token. The token is read and not trusted: its issuer checks it.
func ChatGPTAccount(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var c struct {
		Auth struct {
			Account string `json:"chatgpt_account_id"`
		} `json:"https://api.openai.com/auth"`
	}
	if json.Unmarshal(claims, &c) != nil {
		return ""
	}
	for _, b := range []byte(c.Auth.Account) {
		if b <= ' ' || b > '~' {
			return "" // it becomes a header
		}
	}
	return c.Auth.Account
}
