package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Signer signs messages as Standard Webhooks has it (standardwebhooks.com, "v1" symmetric): HMAC-SHA256 over id,
// timestamp and body, once for each key, so that a receiver may know the old key or the new one.
type signer struct{ keys [][]byte }

// newSigner takes base64 secrets, with or without "whsec_". Errors do not repeat a secret.
func newSigner(secrets []string) (signer, error) {
	var s signer
	for i, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return signer{}, fmt.Errorf("secret %d of %d is not base64 (Standard Webhooks: \"whsec_\" and base64)", i+1, len(secrets))
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

// signs reports whether there is anything to sign with.
func (s signer) signs() bool { return len(s.keys) > 0 }

// sign sets timestamp and signature, in place of those of an earlier try.
func (s signer) sign(h http.Header, id string, now time.Time, body []byte) {
	if !s.signs() {
		return
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(s.keys))
	for i, key := range s.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}

// Sign signs the message for the time now, with each of the secrets; without any it stays unsigned.
func (m *Message) Sign(secrets []string, now time.Time) error {
	s, err := newSigner(secrets)
	if err != nil {
		return err
	}
	s.sign(m.Header, m.ID, now, m.Body)
	return nil
}
