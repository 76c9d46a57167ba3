package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The headers of a request.
const (
	HeaderDelivery  = "Berth-Delivery"  // the same at each try
	HeaderTry       = "Berth-Try"       // 1 is the first
	HeaderSignature = "Berth-Signature" // t=...,v1=...
)

// Sender posts to one address.
type Sender struct {
	url    string
	secret []byte
	now    func() time.Time
	client *http.Client
}

// patience is how long a receiver may take for one request, its answer included.
const patience = 15 * time.Second

// leastSecret is how many bytes a secret must have: a short one can be guessed from one request.
const leastSecret = 16

// New checks address and secret.
func New(address string, secret []byte, now func() time.Time) (*Sender, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not an address such as https://example.org/hook", address)
	case len(secret) < leastSecret:
		return nil, fmt.Errorf("the secret has %d bytes: use %d or more (openssl rand -hex 32)", len(secret), leastSecret)
	}
	return &Sender{url: u.String(), secret: secret, now: now, client: &http.Client{
		Timeout: patience,
		// An answer that leads elsewhere is a refusal: whoever runs the receiver must not be able to point this machine at
		// addresses that only it can reach.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
	}}, nil
}

// Close ends the connections that are kept.
func (s *Sender) Close() { s.client.CloseIdleConnections() }

// Send posts a body. Any answer but 2xx is an error, and so is a redirect.
func (s *Sender) Send(ctx context.Context, id string, try int, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "berth-webhook")
	r.Header.Set(HeaderDelivery, id)
	r.Header.Set(HeaderTry, strconv.Itoa(try))
	r.Header.Set(HeaderSignature, Sign(s.secret, s.now(), body))
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection can be used again
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fmt.Errorf("%s leads to %q, which is not followed: name the last address", res.Status, res.Header.Get("Location"))
	case res.StatusCode < 200 || res.StatusCode > 299:
		return errors.New("the receiver answered " + res.Status)
	}
	return nil
}

// Sign is the signature of a body sent at that time.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(sum(secret, t, body))
}

func sum(secret []byte, t string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(t + ".")) // a hash never fails
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}

// ErrSignature says that a request is not from who knows the secret, or is old.
var ErrSignature = errors.New("webhook: the signature does not fit")

// Verify checks a signature, and that it is at most so old.
func Verify(secret []byte, header string, body []byte, now time.Time, oldest time.Duration) error {
	t, v1, ok := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	seconds, err := strconv.ParseInt(t, 10, 64)
	got, hexErr := hex.DecodeString(v1)
	if !ok || err != nil || hexErr != nil {
		return fmt.Errorf("%w: %q has not the form t=SECONDS,v1=HEX", ErrSignature, header)
	}
	if !hmac.Equal(got, sum(secret, t, body)) {
		return ErrSignature
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > oldest || age < -oldest {
		return fmt.Errorf("%w: it was made %v ago", ErrSignature, age.Round(time.Second))
	}
	return nil
}
